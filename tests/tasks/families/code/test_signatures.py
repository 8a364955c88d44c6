from __future__ import annotations

import pytest

from kveval.tasks.families.code.signatures import LONGEST_SIGNATURE_CHARACTERS, canonical, signature_in

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
