from __future__ import annotations

import pytest
import yaml
from support import DATA

from kveval.tasks.scoring.abstention import abstains
from kveval.tasks.scoring.text import PROSE

PLANTED = ("1234567", "7654321")
ROWS = yaml.safe_load((DATA / "abstentions.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["answer"])
def test_abstentions(row):
    assert abstains(row["answer"], PLANTED) is row["abstains"]


def test_a_value_is_named_as_the_family_reads_it():
    answer = "It is not stated. Perhaps at O’Briens, seven miles away."
    assert abstains(answer, ["O'Briens, 7 miles"])
    assert not abstains(answer, ["O'Briens, 7 miles"], PROSE)
