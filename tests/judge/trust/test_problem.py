"""What broke, and when."""

import pytest

from kveval.judge.trust.problem import clock, iso_time


def test_a_time_is_written_for_machines_and_for_people() -> None:
    assert iso_time(1_796_042_460.0) == "2026-11-30T12:41:00+00:00"
    assert clock("2026-11-30T12:41:00+00:00") == " (12:41 UTC)"
    assert clock("2026-11-30T13:41:00+01:00") == " (12:41 UTC)"


@pytest.mark.parametrize(("text", "shown"), [(None, ""), ("some night", " (some night)")])
def test_a_time_that_is_none_is_shown_as_it_is(text: str | None, shown: str) -> None:
    assert clock(text) == shown
