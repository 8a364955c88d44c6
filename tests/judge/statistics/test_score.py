"""The interval of a mean score equals Wilson's where samples are independent."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from kveval.judge.statistics.score import mean_score


def test_equals_wilson_when_samples_are_independent() -> None:
    scores = np.r_[np.ones(1800), np.zeros(200)]
    score = mean_score(scores, np.arange(2000))
    assert (score.low, score.high) == pytest.approx(proportion_confint(1800, 2000, method="wilson"), abs=2e-5)


def test_copies_add_nothing() -> None:
    scores = np.random.default_rng(4).random(300) < 0.8
    once = mean_score(scores, np.arange(300))
    tenfold = mean_score(np.repeat(scores, 10), np.repeat(np.arange(300), 10))
    assert (tenfold.low, tenfold.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_has_a_width_at_the_ends(score: float) -> None:
    result = mean_score(np.full(50, score), np.arange(50))
    assert result.mean == score
    assert result.low is not None
    assert result.high is not None
    assert 0.05 < result.high - result.low < 0.1


def test_without_evidence() -> None:
    assert mean_score([], []).reason == "no samples"
    alone = mean_score([1, 0, 1], ["h", "h", "h"])
    assert alone.mean == pytest.approx(2 / 3)
    assert alone.se is None
    assert alone.low is None
    assert alone.reason == "only one haystack, so the error cannot be estimated"
