"""The correction for skewness is Hall's, never makes a verdict easier, and keeps the error rate of rare losses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from kveval.judge.statistics.difference import paired_difference
from kveval.judge.statistics.skewness import SkewedT


def test_without_skewness_it_is_t() -> None:
    found = SkewedT.of(np.array([-2.0, -1.0, 1.0, 2.0] * 10))
    t = scipy_stats.t(39)
    assert found.reach(0.95) == pytest.approx((t.ppf(0.975), t.ppf(0.975)))
    assert found.below(-1.5) == pytest.approx(t.cdf(-1.5))
    assert found.two_sided(1.5) == pytest.approx(2 * t.cdf(-1.5))


def test_rare_losses_reach_further_down_and_no_less_up() -> None:
    residuals = np.array([-9.0] * 10 + [1.0] * 90)
    found, t = SkewedT.of(residuals), scipy_stats.t(99)
    below, above = found.reach(0.95)
    assert below > 1.15 * t.ppf(0.975)
    assert above == pytest.approx(t.ppf(0.975))
    # Seen from above, what lies below is further away than it seems.
    assert found.below(-2.0) == pytest.approx(t.cdf(-2.0))
    assert found.below(2.0) >= t.cdf(2.0)


def test_bounds_and_p_values_agree() -> None:
    found = SkewedT(49, -0.2)
    below, above = found.reach(0.95)
    assert found.two_sided(below) == pytest.approx(0.05)
    assert found.below(-above) == pytest.approx(0.025)


def test_a_loss_of_exactly_the_margin_rarely_passes() -> None:
    """20 of 1,000 are lost on average, and none gained. With t alone, 5% of these runs pass a margin of 2 points."""
    rng = np.random.default_rng(5)
    codes, scores = np.repeat(np.arange(100), 10), np.ones(1000)
    passes = fails = by_t = 0
    for _ in range(1500):
        candidate = (rng.random(1000) >= 0.02) * 1.0
        found = paired_difference(scores, candidate, codes, margin=0.02)
        assert found.low is not None
        assert found.high is not None
        assert found.delta is not None
        assert found.se is not None
        passes += found.low > -0.02
        fails += found.high < -0.02
        by_t += found.delta - scipy_stats.t.ppf(0.975, 99) * found.se > -0.02
    assert by_t / 1500 > 0.04
    assert passes / 1500 <= 0.025
    assert fails / 1500 <= 0.025
