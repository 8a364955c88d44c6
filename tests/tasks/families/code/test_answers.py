from __future__ import annotations

import pytest
import yaml
from support import DATA

from kveval.tasks.families.code.answers import (
    LONGEST_SIGNATURE_CHARACTERS,
    canonical,
    fenced_blocks,
    program_of,
    signature_in,
)

ROWS = yaml.safe_load((DATA / "code_answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS["program_of"], ids=lambda row: row["output"])
def test_programs_are_found(row):
    assert program_of(row["output"], "solve", "\n```python\ndef solve(x):") == row["code"]


def test_the_last_code_block_may_be_unclosed():
    assert fenced_blocks("```python\na = 1\n```\nand\n```\nb = 2\n") == ["a = 1\n", "b = 2\n"]


LINE = "def merge_lantern("


@pytest.mark.parametrize(
    "text",
    [
        "amber, *, crisp=')'):",
        "def merge_lantern(amber, *, crisp=')'):\n    return amber",
        "```python\ndef merge_lantern(amber, *, crisp=')'):\n```",
        "The line goes on with `amber, *, crisp=')'):`.",
        "def merge\\_lantern(amber, *, crisp=')'):",
    ],
)
def test_a_signature_is_found_whatever_is_around_it(text):
    assert signature_in(text, LINE) == "amber, *, crisp=')'"


def test_a_signature_that_never_closes_ends_with_its_line():
    assert signature_in("amber, crisp:\nand more", LINE) == "amber, crisp"


@pytest.mark.parametrize("parameters", ["a, b='x'", 'a,b="x"', "a, b='x',", "\n  a,\n  b='x'\n"])
def test_ways_of_writing_the_same_parameters_are_equal(parameters):
    assert canonical(parameters) == "a, b='x'"


@pytest.mark.parametrize("parameters", ["a b", "a): pass\ndef g(", f"a={'1' * LONGEST_SIGNATURE_CHARACTERS}"])
def test_what_python_cannot_read_is_no_signature(parameters):
    assert canonical(parameters) is None
