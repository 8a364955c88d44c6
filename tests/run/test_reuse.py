from __future__ import annotations

import pytest
from pydantic import ValidationError

from kveval.run.reuse import Confirmation, Moved, Reuse

TAKEN = Reuse(
    path="/runs/monday", run_id="abc", created="2026-11-30T20:00:00+00:00", answers=1200,
    asked_from="2026-11-30T20:01:00+00:00", asked_until="2026-11-30T21:00:00+00:00", confirmed_by="bf16",
)  # fmt: skip


def test_what_was_taken_is_said_with_its_proof() -> None:
    moved = Moved(questions=40, turned=1, differing=3, expected=40, expected_moved=0.0021)
    noise = Moved(questions=400, turned=9, differing=31, expected=400, expected_moved=0.002)
    confirmed = TAKEN.model_copy(update={"confirmation": Confirmation(haystacks=4, moved=moved, noise=noise)})
    assert confirmed.in_words() == (
        "1,200 answers are taken from /runs/monday (run abc, asked 2026-11-30T20:01:00+00:00 to "
        "2026-11-30T21:00:00+00:00); of 40 questions asked again, 1 turned right or wrong, 3 have another output, the "
        "expected score moved by 0.21 points on average (in the A/A run of then 9 of 400 turned, 31 differ, and it "
        "moved by 0.2 points)"
    )
    alone = TAKEN.model_copy(update={"confirmation": Confirmation(haystacks=4, moved=moved, noise=None)})
    assert alone.in_words().endswith("(there was no A/A run to compare with)")
    assert TAKEN.in_words().endswith("confirmed by the questions of bf16 that were asked again")


def test_why_nothing_was_taken_is_said() -> None:
    refused = TAKEN.model_copy(update={"refusal": "the engine is another"})
    assert refused.in_words() == "nothing is taken from an earlier run: the engine is another"


def test_what_is_read_back_is_checked() -> None:
    assert Reuse.model_validate_json(TAKEN.model_dump_json()) == TAKEN
    with pytest.raises(ValidationError):
        Moved(questions=-1, turned=0, differing=0)
