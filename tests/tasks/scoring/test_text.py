from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import DATA

from kveval.tasks.scoring.text import abstains, answer_of, names, ruler_match_all, values_named, words_of

PLANTED = ("1234567", "7654321")


@pytest.mark.parametrize("row", yaml.safe_load((DATA / "abstentions.yaml").read_text()), ids=lambda row: row["answer"])
def test_abstentions(row):
    assert abstains(row["answer"], PLANTED) is row["abstains"]


@pytest.mark.parametrize("row", yaml.safe_load((DATA / "answers.yaml").read_text()), ids=lambda row: row["output"])
def test_answers(row):
    doc = {"answers": row["answers"], "distractors": row.get("distractors", []), "absent": row.get("absent", False)}
    assert values_named(doc, [row["output"]])["score"] == row["score"]


@given(value=st.integers(1_000_000, 9_999_999), before=st.text("0123456789", min_size=1, max_size=3))
def test_a_number_inside_a_longer_number_is_not_named(value, before):
    assert names(words_of(f"It is {value}."), str(value))
    assert not names(words_of(f"It is {before}{value}."), str(value))
    assert not names(words_of(f"It is {value}{before}."), str(value))


@given(
    value=st.integers(1_000_000, 9_999_999),
    wording=st.sampled_from(["{}", "**{}**", "It's {}!", "Answer: {}.", "`{}`"]),
)
def test_wording_does_not_change_the_score(value, wording):
    doc = {"answers": [str(value)], "distractors": [], "absent": False}
    assert values_named(doc, [wording.format(value)])["score"] == 1.0
    assert values_named(doc, [wording.format(f"{value:,}")])["score"] == 1.0


def test_ruler_counts_substrings_of_the_raw_output():
    assert ruler_match_all("91234567", ["1234567"]) == 1.0
    assert ruler_match_all("1,234,567", ["1234567"]) == 0.0
    assert ruler_match_all("Paris", ["paris", "london"]) == 0.5


def test_answer_of_keeps_what_follows_the_last_thought():
    assert answer_of("<think>a</think>b<think>c</think> d ") == "d"
    assert answer_of("no thoughts") == "no thoughts"
