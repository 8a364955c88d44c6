"""The number of samples that settles a verdict equals the textbook's, and its range holds the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats

from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.judge.statistics.power import POWER, MoreSamples, more_samples

MARGIN = 0.02


def drawn(rng: np.random.Generator, n: int, down: float, up: float, questions: int = 5) -> Difference:
    """Independent samples with these rates of losses and gains, `questions` to a haystack."""
    draw = rng.random(n)
    baseline = np.where(draw < down, 1.0, np.where(draw < down + up, 0.0, rng.random(n) < 0.8))
    candidate = np.where(draw < down, 0.0, np.where(draw < down + up, 1.0, baseline))
    return paired_difference(baseline, candidate, np.arange(n) // questions, margin=MARGIN)


def known(down: float, up: float, n: int, questions: int = 5) -> Difference:
    """The exact difference and variance of `drawn` instead of one run's estimates."""
    delta = up - down
    se = ((down + up - delta**2) / n) ** 0.5
    one = drawn(np.random.default_rng(1), n, down, up, questions)
    return replace(one, delta=delta, se=se, square=down + up, assumed_effect=1.0)


def needed(difference: Difference, margin: float = MARGIN) -> MoreSamples:
    more = more_samples(difference, margin=margin, confidence=0.95, p_factor=1.0)
    assert more is not None
    return more


def settled_share(rng: np.random.Generator, n: int, down: float, up: float) -> float:
    found = [drawn(rng, n, down, up) for _ in range(400)]
    return sum(
        one.low is not None and one.high is not None and (one.low > -MARGIN or one.high < -MARGIN) for one in found
    ) / len(found)


@pytest.mark.parametrize(("down", "up", "n"), [(0.03, 0.03, 200), (0.09, 0.02, 100)])
def test_with_the_true_variance_the_number_is_right_within_15_percent(down: float, up: float, n: int) -> None:
    likely = needed(known(down, up, n)).likely
    assert likely is not None
    rng = np.random.default_rng(8)
    assert settled_share(rng, int((n + likely) * 0.85), down, up) < POWER
    assert settled_share(rng, int((n + likely) * 1.15), down, up) > POWER


def test_the_number_equals_the_textbook_size() -> None:
    truth = known(0.03, 0.03, 500, questions=1)
    assert truth.se is not None
    z = scipy_stats.norm.ppf([0.975, 0.8]).sum()
    size = 500 * (z * truth.se / MARGIN) ** 2
    likely = needed(truth).likely
    assert likely is not None
    # A little more than the textbook: t instead of z, and the sparse interval.
    assert size <= likely + 500 <= 1.05 * size


def test_a_loss_beyond_the_margin_needs_the_samples_that_show_it() -> None:
    """8% lost and 1% gained of 500 samples that share no context: 7 points against a margin of 5."""
    truth = known(0.08, 0.01, 500, questions=1)
    assert truth.se is not None
    z = scipy_stats.norm.ppf([0.975, 0.8]).sum()
    likely = needed(truth, margin=0.05).likely
    assert likely is not None
    assert likely + 500 == pytest.approx(500 * (z * truth.se / 0.02) ** 2, rel=0.01)


def test_at_the_margin_no_number_is_likely_and_the_range_has_no_end() -> None:
    more = needed(replace(known(0.03, 0.03, 500), delta=-MARGIN))
    assert more.likely is None
    assert more.high is None
    assert more.low > 0


@pytest.mark.parametrize(("haystacks", "down", "up"), [(30, 0.03, 0.03), (30, 0.08, 0.02), (60, 0.03, 0.03)])
def test_four_of_five_ranges_hold_the_true_number(haystacks: int, down: float, up: float) -> None:
    """Of the numbers that single runs of 30 x 10 would name, a quarter is within 15% of the truth."""
    n = 10 * haystacks
    truth = needed(known(down, up, n, questions=10)).likely
    assert truth is not None
    rng = np.random.default_rng([haystacks, round(1000 * down)])
    ranges = [needed(drawn(rng, n, down, up, questions=10)) for _ in range(150)]
    held = sum(one.low <= max(truth, 1) and (one.high is None or truth <= one.high) for one in ranges)
    assert held / len(ranges) >= 0.78
    assert all(one.high is None or one.high + n <= 10 * (one.low + n) for one in ranges)


def test_more_contexts_narrow_the_range() -> None:
    rng = np.random.default_rng(4)
    few, many = ([needed(drawn(rng, n, 0.08, 0.02, questions=10)).high for _ in range(40)] for n in (200, 1200))
    assert sum(high is None for high in few) > 2 * sum(high is None for high in many)
