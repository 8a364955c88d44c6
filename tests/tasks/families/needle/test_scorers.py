from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import DATA

from kveval.tasks.families.needle.scorers import ruler_match_all, values_named, words_counted


def rows(name):
    return pytest.mark.parametrize(
        "row", yaml.safe_load((DATA / name).read_text(encoding="utf-8")), ids=lambda row: row["output"]
    )


def doc_of(row):
    return {"answers": row["answers"], "distractors": row.get("distractors", []), "absent": row.get("absent", False)}


@rows("answers.yaml")
def test_planted_numbers(row):
    assert values_named(doc_of(row), [row["output"]])["score"] == row["score"]


@rows("needle_answers.yaml")
def test_planted_values_that_are_not_numbers(row):
    assert values_named(doc_of(row), [row["output"]])["score"] == pytest.approx(row["score"], abs=1e-4)


@rows("word_answers.yaml")
def test_counted_words(row):
    assert words_counted(row, [row["output"]])["score"] == pytest.approx(row["score"], abs=1e-4)


@rows("ruler_cases.yaml")
def test_the_ruler_metric_follows_rulers_published_rule(row):
    assert 100 * ruler_match_all(row["output"], row["references"]) == pytest.approx(row["ruler_percent"], abs=0.005)


@given(
    value=st.integers(1_000_000, 9_999_999),
    wording=st.sampled_from(["{}", "**{}**", "It's {}!", "Answer: {}.", "`{}`"]),
)
def test_wording_does_not_change_the_score(value, wording):
    doc = {"answers": [str(value)], "distractors": [], "absent": False}
    assert values_named(doc, [wording.format(value)])["score"] == 1.0
    assert values_named(doc, [wording.format(f"{value:,}")])["score"] == 1.0


def test_the_asked_key_is_no_second_value():
    key, value, other = (f"{n}e4b18b7-9cc9-4240-8265-94945b8c9345" for n in "0ab")
    doc = {"answers": [value], "distractors": [], "absent": False, "question": f'What is the value of the key "{key}"?'}
    assert values_named(doc, [f'The value of the key "{key}" is "{value}".'])["score"] == 1
    assert values_named(doc, [f'The value of the key "{other}" is "{value}".'])["score"] == 0
