from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import DATA, ROOT

from kveval.tasks.external import row_scorers
from kveval.tasks.families.code import scorers as code
from kveval.tasks.families.conversation import scorers as conversation
from kveval.tasks.families.coverage import scorers as coverage
from kveval.tasks.families.long_decode import scorers as long_decode
from kveval.tasks.families.multidoc_qa import scorers as multidoc_qa
from kveval.tasks.families.needle import scorers as needle
from kveval.tasks.scoring.text import CODE, PROSE, VALUES, Normalizer, chooses, is_choice

TABLE = yaml.safe_load((DATA / "normalizer.yaml").read_text(encoding="utf-8"))
IN_USE = {"values": VALUES, "prose": PROSE, "code": CODE}


@pytest.mark.parametrize("row", TABLE["always"], ids=lambda row: row["text"])
@pytest.mark.parametrize("normalizer", IN_USE.values(), ids=IN_USE.keys())
def test_rules_that_hold_for_every_family(row, normalizer):
    assert normalizer.names(row["text"], row["reference"]) is row["named"]


@pytest.mark.parametrize("row", TABLE["options"], ids=lambda row: f"{row['option']}: {row['text']}")
def test_an_option_decides(row):
    off = Normalizer()
    on = replace(off, **{row["option"]: True})
    assert on.names(row["text"], row["reference"]) is row["with"]
    assert off.names(row["text"], row["reference"]) is row["without"]
    assert row["with"] is not row["without"]


def test_every_option_has_a_case():
    assert {row["option"] for row in TABLE["options"]} == {field.name for field in fields(Normalizer)}


@pytest.mark.parametrize("row", TABLE["words"], ids=lambda row: row["text"])
def test_words(row):
    normalizer = IN_USE[row["normalizer"]] if "normalizer" in row else Normalizer()
    assert normalizer.words(row["text"]) == row["words"]


@given(value=st.integers(1_000_000, 9_999_999), before=st.text("0123456789", min_size=1, max_size=3))
@pytest.mark.parametrize("normalizer", IN_USE.values(), ids=IN_USE.keys())
def test_a_number_inside_a_longer_number_is_not_named(normalizer, value, before):
    assert normalizer.names(f"It is {value}.", str(value))
    assert not normalizer.names(f"It is {before}{value}.", str(value))
    assert not normalizer.names(f"It is {value}{before}.", str(value))


@pytest.mark.parametrize(
    ("said", "module"),
    [
        ("`needle`", needle),
        ("`conversation`", conversation),
        ("`coverage`", coverage),
        ("`multidoc_qa`", multidoc_qa),
        ("`contains`", row_scorers),
        ("`code`", code),
        ("`long_decode`", long_decode),
    ],
)
def test_the_readme_says_which_options_a_family_uses(said, module):
    section = (ROOT / "tasks" / "README.md").read_text(encoding="utf-8").split("### How text is read")[1]
    [options] = [row.split("|")[3] for row in section.splitlines() if row.startswith("|") and said in row.split("|")[1]]
    used = {field.name for field in fields(Normalizer) if getattr(module.NORMALIZER, field.name)}
    assert set(re.findall(r"\w+", options)) - {"none"} == used


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["\n", "*", "1.", "-\n", "_a", "\\", "minus ", "1 000 ", "値", "e\u0301", "a'"], ids=repr
)
@pytest.mark.parametrize("normalizer", IN_USE.values(), ids=IN_USE.keys())
def test_a_degenerate_output_is_read_in_little_time(normalizer, piece):
    assert not normalizer.names(piece * 30_000, "48213")


@pytest.mark.parametrize("text", ["A", "(A)", "A.", "**A**", "The answer is A.", "A is right", "A because of B"])
def test_a_choice_is_named_as_it_is_written(text):
    assert chooses(text, "A")


@pytest.mark.parametrize("text", ["A city", "a", "B", "a plan", "A+", "A's", "AB"])
def test_a_word_of_a_sentence_names_no_choice(text):
    assert not chooses(text, "A")


def test_only_words_that_prose_is_full_of_need_their_spelling():
    assert is_choice(["a"])
    assert is_choice(["the"])
    assert not is_choice(["b"])
    assert not is_choice([])
