from __future__ import annotations

import pytest
import yaml
from support import DATA

from kveval.tasks.families.multidoc_qa.scorers import answered, cited


def doc_of(row):
    return {
        "question": row.get("question", "Who was it?"),
        "answers": ["not stated"] if row.get("absent") else row.get("answers", ["Rollo"]),
        "distractors": row.get("distractors", ["Charles III"]),
        "absent": row.get("absent", False),
        "document_ids": [] if row.get("absent") else ["K4821", "B1234"],
    }


def rows(name):
    return yaml.safe_load((DATA / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", rows("document_answers.yaml"), ids=lambda row: row["output"][:60])
def test_answers(row):
    doc = doc_of(row) | {"distractors": row.get("distractors", [])}
    metrics = answered(doc, [row["output"]])
    assert metrics["score"] == row["score"]
    assert metrics["f1"] == pytest.approx(row.get("f1", metrics["f1"]), abs=0.001)


@pytest.mark.parametrize("row", rows("cited_answers.yaml"), ids=lambda row: row["output"][:60])
def test_cited_answers(row):
    metrics = cited(doc_of(row), [row["output"]])
    expected = {key: value for key, value in row.items() if key not in ("output", "absent")}
    assert {key: metrics[key] for key in expected} == pytest.approx(expected)
    assert all(0 <= value <= 1 for value in metrics.values())
