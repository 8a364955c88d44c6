from __future__ import annotations

import pytest

from kveval.tasks.scoring.text import PROSE_ANSWERS
from kveval.tasks.scoring.wording.alternatives import is_one_of_several


@pytest.mark.parametrize(
    "text",
    [
        "Rollo or Harald", "Harald or Rollo", "Rollo, Harald, or Ragnar", "Rollo/Harald", "Rollo and/or Harald",
        "Rollo vs. Harald", "The leader was Rollo, or perhaps Harald.", "ROLLO OR HARALD", "`Rollo` or `Harald`",
        "Either Rollo the Viking or Harald", "maybe Rollo, maybe Harald", "It could be Rollo. It could be Harald.",
        "Ragnar, Harald, Rollo", "Ragnar and Harald and Rollo",
        "- Rollo\n- Harald\n- Erik", "1. Harald\n2. Rollo\n3. Erik",
    ],
)  # fmt: skip
def test_an_answer_among_others_decides_for_none(text: str) -> None:
    assert is_one_of_several(text, "Rollo", PROSE_ANSWERS)


@pytest.mark.parametrize(
    "text",
    [
        "Rollo", "Rollo, who settled in 911 or so", "Rollo, who settled in 911 or 912", "Rollo, a Viking or Norseman",
        "Rollo in 911 or 912", "Rollo, Normandy, France", "It may be Rollo.", "Rollo, also written Rolf",
        "Harald or Erik",
        "Rollo, duke of this or that place", "See django/utils: Rollo", "Rollo or Rollo",
    ],
)  # fmt: skip
def test_a_second_reading_changes_nothing(text: str) -> None:
    assert not is_one_of_several(text, "Rollo", PROSE_ANSWERS)


def test_a_state_is_no_alternative() -> None:
    assert not is_one_of_several("Portland, OR", "Portland", PROSE_ANSWERS)
    assert is_one_of_several("Portland OR Salem", "Portland", PROSE_ANSWERS)


def test_an_alternative_of_the_question_may_be_repeated() -> None:
    assert not is_one_of_several("sword or shield", "sword", PROSE_ANSWERS, "Was it a sword or a shield?")
    assert not is_one_of_several("60 km/h", "60 km", PROSE_ANSWERS)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", ["or ", "Rollo or ", "/", ", ", "either ", "maybe ", "- a\n"])
def test_a_degenerate_output_is_read_in_little_time(piece: str) -> None:
    assert is_one_of_several(piece * 3_000, "Rollo", PROSE_ANSWERS) in (True, False)
