from __future__ import annotations

from kveval.tasks.scoring.text import CODE, PROSE_ANSWERS, VALUES
from kveval.tasks.scoring.wording.commitment import gives


def test_an_answer_gives_what_it_names_without_denying_it_or_offering_another() -> None:
    assert gives("It was Rollo, not Harald.", "Rollo", PROSE_ANSWERS)
    assert not gives("It was not Rollo.", "Rollo", PROSE_ANSWERS)
    assert not gives("Rollo or Harald", "Rollo", PROSE_ANSWERS)
    assert gives("Rollo or Harald", "Rollo", PROSE_ANSWERS, "Rollo or Harald?")
    assert not gives("It is not 1234567 or 7654321", "1234567", VALUES)
    assert gives("merge_lantern, not get_name", "merge_lantern", CODE)
    assert not gives("Harald", "Rollo", PROSE_ANSWERS)
