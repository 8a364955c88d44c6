"""From a difference to pass, fail or undecided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from kveval.config.judge import Policy
from kveval.judge.comparison.verdict import Verdict, decide
from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.judge.statistics.hypothesis_tests import holm

POLICY = Policy()


def difference(down: int, up: int, n: int, clusters: int) -> Difference:
    """`down` and `up` flips spread evenly over `n` samples in equal clusters, half of the others correct."""
    order = np.random.default_rng([down, up, n]).permutation(n)
    baseline, candidate = np.arange(n) % 2 * 1.0, np.arange(n) % 2 * 1.0
    baseline[order[:down]], candidate[order[:down]] = 1, 0
    baseline[order[down : down + up]], candidate[order[down : down + up]] = 0, 1
    return paired_difference(baseline, candidate, np.arange(n) // (n // clusters), margin=POLICY.margin)


def verdict(found: Difference, **overrides: Any) -> Verdict:
    arguments = {
        "margin": POLICY.margin,
        "confidence": POLICY.confidence,
        "p_holm": found.p_beyond,
        "asked": found.n,
        "sensitive": found,
        **overrides,
    }
    return decide(found, **arguments)


def test_no_loss_passes() -> None:
    result = verdict(difference(3, 3, 1000, 100))
    assert result.word == "pass"
    assert result.more_samples is None


def test_a_loss_shown_to_exceed_the_margin_fails() -> None:
    found = difference(26, 4, 300, 30)
    result = verdict(found)
    assert found.high is not None
    assert found.high < -POLICY.margin
    assert (result.word, result.reason_code) == ("fail", "loss_beyond_margin")
    assert result.reason == (
        f"a loss of 7.3 points, more than the margin of 2.0: statistically significant "
        f"(adjusted p = {found.p_beyond:.2g})"
    )


def test_a_real_loss_whose_interval_reaches_the_margin_is_no_fail() -> None:
    """33 lost and 12 gained of 1,000: beyond the margin in the estimate, and not shown to be."""
    found = difference(33, 12, 1000, 100)
    assert found.delta == pytest.approx(-0.021)
    assert found.p is not None
    assert found.p < 0.01
    result = verdict(found)
    assert (result.word, result.reason_code) == ("undecided", "real_loss_within_reach_of_margin")
    assert result.reason == "a real loss of 2.1 points, not shown to exceed the margin of 2.0"


def test_the_same_loss_among_many_rows_is_undecided() -> None:
    result = verdict(difference(26, 4, 300, 30), p_holm=0.026)
    assert (result.word, result.reason_code) == ("undecided", "real_loss_within_reach_of_margin")
    assert "once all rows are counted (adjusted p = 0.026)" in result.reason


def test_a_real_loss_within_the_margin_that_could_exceed_it_is_undecided() -> None:
    found = difference(52, 0, 3000, 300)
    assert found.p is not None
    assert found.p < 0.001
    result = verdict(found)
    assert (result.word, result.reason_code) == ("undecided", "real_loss_within_reach_of_margin")


def test_a_real_loss_that_cannot_exceed_the_margin_passes_and_is_named() -> None:
    result = verdict(difference(40, 10, 3000, 300))
    assert (result.word, result.reason_code) == ("pass", "small_real_loss")
    assert result.reason == "a small real loss of 1.0 points; a loss of more than 2.0 points is excluded at 95%"


def test_a_verdict_takes_its_confidence_from_its_caller() -> None:
    """One look of several has a smaller error than the policy allows for all of them."""
    found = difference(26, 4, 300, 30)
    assert verdict(found).word == "fail"
    stricter = replace(found, low=-0.12, high=-0.018)
    assert verdict(stricter, confidence=0.999).word == "undecided"
    assert verdict(found, confidence=0.999, p_holm=0.001).word == "undecided"


def test_a_gain_never_fails_and_one_that_no_cache_can_cause_does_not_pass() -> None:
    assert verdict(difference(4, 8, 300, 30)).word == "pass"
    doubted = verdict(difference(4, 40, 300, 30))
    assert (doubted.word, doubted.is_doubted) == ("undecided", True)
    assert verdict(difference(4, 40, 300, 30), may_gain=True).word == "pass"


@pytest.mark.parametrize("n", [1, 10, 100])
def test_few_equal_answers_do_not_pass(n: int) -> None:
    found = difference(0, 0, n, n)
    result = verdict(found)
    assert result.word == "undecided"
    assert result.reason


def test_equal_answers_of_few_contexts_do_not_pass_however_many_they_are() -> None:
    result = verdict(difference(0, 0, 1000, 100))
    assert (result.word, result.reason_code) == ("undecided", "loss_not_excluded")
    assert result.reason.startswith(
        "not enough data: it scored the same, but the true change could be anywhere from -3.7 to +0.4 points; no "
        "answer differs, but 100 contexts can miss a fault that "
        "ruins whole ones"
    )
    assert verdict(difference(0, 0, 1900, 190)).word == "pass"


def test_190_equal_answers_pass() -> None:
    assert verdict(difference(0, 0, 180, 180)).word == "undecided"
    assert verdict(difference(0, 0, 190, 190)).word == "pass"


def test_equal_answers_of_five_haystacks_do_not_pass() -> None:
    result = verdict(difference(0, 0, 1000, 5))
    assert result.word == "undecided"
    assert result.reason.startswith("too few contexts to pass: 5 of 6 required")
    # Six contexts could miss a fault that ruins whole ones. 189 could not.
    assert result.more_samples is not None
    assert result.more_samples.likely is not None
    assert result.more_samples.likely / 200 + 5 == pytest.approx(189, abs=1)
    assert fewest_clusters(0.95) == 6
    assert fewest_clusters(0.99) == 8


def test_unanswered_samples_count_against_a_pass() -> None:
    found = difference(3, 3, 1000, 100)
    assert verdict(found, asked=1001).word == "pass"
    result = verdict(found, asked=1030)
    assert result.word == "undecided"
    assert result.reason.startswith("30 of 1030 questions have no answer; if they were lost")


def test_what_cannot_show_a_loss_does_not_pass() -> None:
    found = difference(0, 0, 1000, 100)
    assert verdict(found, insensitive="cannot show a loss: ceiling").word == "undecided"


def test_cells_that_can_show_a_loss_must_hold_alone() -> None:
    found, sensitive = difference(5, 5, 1000, 100), difference(6, 0, 200, 20)
    result = verdict(found, sensitive=sensitive)
    assert result.word == "undecided"
    assert result.reason.startswith("not enough data: over the 200 questions whose cells can show a loss")


def test_a_few_contexts_that_can_show_a_loss_do_not_pass() -> None:
    """Probabilities move a little on every question, so their interval is narrow even with five contexts."""
    probabilities = np.linspace(0.3, 0.7, 50)
    moved = probabilities + 0.001 * np.cos(np.arange(50))
    sensitive = paired_difference(probabilities, moved, np.arange(50) // 10, rare=False)
    assert sensitive.low is not None
    assert sensitive.low > -POLICY.margin
    result = verdict(difference(3, 3, 1000, 100), sensitive=sensitive)
    assert result.word == "undecided"
    assert result.reason.startswith("too few contexts to pass in cells that can show a loss: 5 of 6 required")
    assert result.more_samples is not None


def test_an_obstacle_stops_a_pass_but_not_a_fail() -> None:
    assert verdict(difference(3, 3, 1000, 100), obstacle="fp8 stopped").reason == "fp8 stopped"
    assert verdict(difference(26, 4, 300, 30), obstacle="fp8 stopped").word == "fail"


def test_nothing_answered_is_undecided() -> None:
    empty = paired_difference([], [], [])
    assert verdict(empty, p_holm=None, asked=10).reason == "no questions answered by both"


@pytest.mark.parametrize("icc", [0.0, 0.5])
def test_simulated_nights_without_change_fail_rarely(icc: float) -> None:
    """24 cells a night, of 100 samples in 20 haystacks, each side with noise of its own."""
    rng = np.random.default_rng(9)
    codes = np.repeat(np.arange(20), 5)
    thresholds = scipy_stats.norm.ppf(np.linspace(0.5, 0.98, 24))
    false_alarms = 0
    for _ in range(200):
        found = []
        for threshold in thresholds:
            shared, *own = (
                (icc**0.5 * rng.normal(size=20)[codes] + (1 - icc) ** 0.5 * rng.normal(size=100)) for _ in range(3)
            )
            first, second = ((0.95**0.5 * shared + 0.05**0.5 * noise < threshold) * 1.0 for noise in own)
            found.append(paired_difference(first, second, codes, margin=POLICY.margin))
        adjusted = holm([1.0 if d.p_beyond is None else d.p_beyond for d in found])
        suspects = [(d, p) for d, p in zip(found, adjusted, strict=True) if p < 0.025]
        false_alarms += any(verdict(d, p_holm=p).word == "fail" for d, p in suspects)
    assert false_alarms <= 10
