from __future__ import annotations

import pytest
import yaml
from support import DATA

from kveval.tasks.families.coverage.scorers import decisions_covered

PLANTED = [
    {"name": "Amber Falcon", "amount": "48,250"},
    {"name": "Brave Otter", "amount": "12,345"},
    {"name": "Calm Raven", "amount": "77,001"},
]


@pytest.mark.parametrize(
    "row",
    yaml.safe_load((DATA / "covered_decisions.yaml").read_text(encoding="utf-8")),
    ids=lambda row: row["output"][:60],
)
def test_covered_decisions(row):
    doc = {"question": row.get("question", "Which?"), "decisions": PLANTED[:2], "other_decisions": PLANTED[2:]}
    metrics = decisions_covered(doc, [row["output"]])
    assert metrics["recall"] == row["recall"]
    assert metrics["precision"] == pytest.approx(row["precision"], abs=0.001)
    assert metrics["score"] == metrics["recall"] * metrics["precision"]
