"""The policy: its former key, and the margin of mixed families."""

from __future__ import annotations

import pytest

from kveval.config.judge import Policy, parse_margin


def test_the_former_name_of_a_key_is_still_read() -> None:
    assert Policy.model_validate({"inconclusive": "allow"}) == Policy(undecided="allow")


def test_the_present_name_of_a_key_wins_over_the_former() -> None:
    assert Policy.model_validate({"inconclusive": "allow", "undecided": "block"}) == Policy(undecided="block")


def test_the_margin_over_families_is_the_mean_of_theirs() -> None:
    policy = Policy(margin=0.1, margins={"qa": 0.02})
    assert policy.margin_over({"needle": 3}, {}) == pytest.approx(0.1)
    assert policy.margin_over({"qa": 3}, {}) == pytest.approx(0.02)
    assert policy.margin_over({"qa": 1, "needle": 3}, {}) == pytest.approx(0.08)
    assert policy.margin_over({}, {}) == 0.1


def test_without_family_margins_the_margin_holds_for_every_family() -> None:
    assert Policy().margin_over({"needle": 1}, {"needle": 0.1}) == Policy().margin


def test_of_an_absolute_and_a_relative_margin_the_smaller_counts() -> None:
    policy = Policy(margin=0.02, margin_relative=0.05)
    assert policy.margin_over({"needle": 10}, {"needle": 0.9}) == pytest.approx(0.02)
    assert policy.margin_over({"needle": 10}, {"needle": 0.2}) == pytest.approx(0.01)


def test_a_relative_margin_is_taken_of_each_family_and_holds_beside_margins_of_families_and_units() -> None:
    policy = Policy(margin=0.02, margin_relative=0.05, margins={"qa": 0.005}, unit_margins={"token_accuracy": 0.015})
    scores = {"needle": 0.2, "qa": 0.9, "code": 0.8}
    assert policy.margin_over({"needle": 1, "qa": 1, "code": 2}, scores) == pytest.approx(
        (0.01 + 0.005 + 0.02 + 0.02) / 4
    )
    assert policy.margin_over({"needle": 1, "code": 1}, scores, "token_accuracy") == pytest.approx((0.01 + 0.015) / 2)


def test_a_family_without_a_baseline_score_is_held_to_the_absolute_margin() -> None:
    assert Policy(margin_relative=0.05).margin_over({"needle": 5}, {}) == Policy().margin


@pytest.mark.parametrize("written", [0.02, "0.02", "2pt", "2 points", "2%", " 2pts ", ".02"])
def test_a_margin_is_a_share_or_says_that_it_is_points(written: object) -> None:
    assert parse_margin(written) == 0.02


@pytest.mark.parametrize(
    ("written", "use"),
    [(2, "0.02, 2pt or 2%"), ("1.5", "0.015, 1.5pt or 1.5%"), (0, "0.02"), (True, "0.02"), ("nan", "0.02"),
     ("100%", "0.02"), ("1e400", "0.02"), ("2..pt", "0.02"), ([], "0.02")],
)  # fmt: skip
def test_a_margin_that_could_mean_two_things_says_how_to_write_it(written: object, use: str) -> None:
    with pytest.raises(ValueError, match="is no margin between 0 and 1; use for") as caught:
        parse_margin(written)
    assert use in str(caught.value)
