from __future__ import annotations

import pytest

from kveval.tasks.scoring.text import VALUES
from kveval.tasks.scoring.wording.denial import is_denied_before, without_denied


@pytest.mark.parametrize(
    "text",
    [
        "It was not Rollo.", "not Rollo", "It isn't Rollo", "It can’t be Rollo.", "Rollo was not the leader.",
        "Rollo is wrong.", "Is it Rollo? No.", "neither Rollo nor Harald", "instead of Rollo", "anyone but Rollo",
        "any name except Rollo", "I don't think that it was Rollo", "I do not believe the leader is Rollo.",
        "It is no longer Rollo", "Rollo does not appear in the text", "(not **Rollo**)", "never Rollo",
    ],
)  # fmt: skip
def test_what_is_denied_is_left_out(text: str) -> None:
    assert VALUES.names(text, "Rollo")
    assert not VALUES.names(without_denied(text, "Rollo"), "Rollo")


@pytest.mark.parametrize(
    "text",
    [
        "Rollo", "Rollo, not Harald", "Not Harald but Rollo", "It was not only Rollo", "There is no doubt it was Rollo",
        "If I'm not mistaken, it is Rollo", "Not surprisingly, Rollo", "None other than Rollo", "No, it is Rollo.",
        "The one that is not mentioned elsewhere is Rollo", "It is not stated directly, but it was Rollo.",
        "Rollo. His birthplace is not known.", "It was not until 911 that Rollo came", "Harald is wrong, it is Rollo",
        "Harald was not the leader and Rollo was", "Is it Harald? No. Rollo.",
    ],
)  # fmt: skip
def test_what_is_claimed_stays(text: str) -> None:
    assert VALUES.names(without_denied(text, "Rollo"), "Rollo")


def test_a_reference_that_denies_something_itself_is_not_denied() -> None:
    assert VALUES.names(without_denied("He was not guilty.", "not guilty"), "not guilty")


def test_numbers_keep_their_commas() -> None:
    assert not VALUES.names(without_denied("1,234,567 is not the number."), "1234567")
    assert VALUES.names(without_denied("It is not 7,654,321, it is 1,234,567."), "1234567")


@pytest.mark.parametrize(
    ("before", "denied"),
    [("not ", True), ("Do not call this: ", True), ("rather than `", True), ("Not a list but ", False),
     ("Here: ", False),
     ("It is not 5. Here: ", False)],
)  # fmt: skip
def test_what_stands_before_a_place_may_deny_it(before: str, denied: bool) -> None:
    assert is_denied_before(f"{before}{{}}", len(before)) is denied


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["not ", "is not the ", "n't", "but ", "a, ", "no? ", "x" * 50 + " "])
def test_a_degenerate_output_is_read_in_little_time(piece: str) -> None:
    assert isinstance(without_denied(piece * 20_000, "Rollo"), str)
    assert isinstance(without_denied((piece * 20_000)[:19_999], "Rollo"), str)
