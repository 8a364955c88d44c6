"""The policy: its former key, and the margin of mixed families."""

from __future__ import annotations

import pytest

from kveval.config.judge import Policy


def test_the_former_name_of_a_key_is_still_read() -> None:
    assert Policy.model_validate({"inconclusive": "allow"}) == Policy(undecided="allow")


def test_the_present_name_of_a_key_wins_over_the_former() -> None:
    assert Policy.model_validate({"inconclusive": "allow", "undecided": "block"}) == Policy(undecided="block")


def test_the_margin_over_families_is_the_mean_of_theirs() -> None:
    policy = Policy(margin=0.1, margins={"qa": 0.02})
    assert policy.over(["needle"] * 3).margin == pytest.approx(0.1)
    assert policy.over(["qa"] * 3).margin == pytest.approx(0.02)
    assert policy.over(["qa", "needle", "needle", "needle"]).margin == pytest.approx(0.08)
    assert policy.over([]) is policy


def test_without_family_margins_the_margin_holds_for_every_family() -> None:
    assert Policy().over(["needle"]).margin == Policy().margin
