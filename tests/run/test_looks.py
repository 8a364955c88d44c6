from __future__ import annotations

import pytest
from pydantic import ValidationError

from kveval.run.looks import Look, PlannedLook, last_look


def look(number: int, *lengths: int) -> Look:
    return Look(number=number, error_share=0.1, at="2026-01-02T03:04:05Z", questions=1, context_lengths=list(lengths))


def test_a_row_rests_on_the_last_look_that_covers_all_of_its_lengths() -> None:
    looks = [look(1, 1024, 2048), look(2, 1024, 2048), look(3, 2048)]
    assert last_look(looks, [2048]) == looks[2]
    assert last_look(looks, [1024]) == looks[1]
    assert last_look(looks, [2048, 1024, 2048]) == looks[1]
    assert last_look(looks, [4096]) is None
    assert last_look([], [1024]) is None


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_a_look_uses_a_share_of_the_error_rate(share: float) -> None:
    with pytest.raises(ValidationError):
        PlannedLook(number=1, error_share=share)
