from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import DATA

from kveval.tasks.families.long_decode.scorers import entries_in_order, entries_of

ROWS = yaml.safe_load((DATA / "entry_answers.yaml").read_text(encoding="utf-8"))
FOUR = ["amber-fox: 4821", "bold-elm: 1275", "cold-owl: 9033", "dusty-pea: 6118"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["output"])
def test_copied_entries(row):
    metrics = entries_in_order({"answers": FOUR}, [row["output"]])
    assert metrics["score"] == row["score"]
    assert [metrics[f"score_q{k}"] for k in range(1, 5)] == row["quarters"]
    assert metrics["stopped"] == row["stopped"]


@given(error=st.integers(0, 3), kind=st.sampled_from(["cut", "drop", "change"]))
def test_the_score_is_the_place_of_the_first_error(error, kind):
    lines = list(FOUR)
    if kind == "cut":
        lines = lines[:error]
    elif kind == "drop":
        del lines[error]
    else:
        lines[error] = "wrong-word: 1111"
    assert entries_in_order({"answers": FOUR}, ["\n".join(lines)])["score"] == error / 4


@pytest.mark.parametrize("text", ["amber\u2011fox: 4,821", "amber\u2010fox: 4821.0", "amber\\-fox: 4821"])
def test_an_entry_is_read_however_its_hyphen_and_number_are_written(text):
    assert entries_of(text) == [("amber-fox", "4821")]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["ha-" * 30_000, "a-b\t" * 30_000, "\n" * 100_000], ids=["chain", "names", "lines"])
def test_a_degenerate_output_is_read_in_little_time(text):
    assert entries_of(text) == []
