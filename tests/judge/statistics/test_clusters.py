"""Clustered errors equal those of statsmodels, and intervals of mean scores those of Wilson."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from kveval.judge.statistics.clusters import clustered_se, design_effect, intra_cluster_correlation, mean_score


def unequal_clusters(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.repeat(np.arange(count), rng.integers(1, 9, count))


def test_equals_statsmodels_cluster_covariance() -> None:
    rng = np.random.default_rng(1)
    codes = unequal_clusters(rng, 40)
    values = rng.normal(size=len(codes)) + rng.normal(size=40)[codes]
    fit = sm.OLS(values, np.ones(len(codes))).fit(cov_type="cluster", cov_kwds={"groups": codes})
    # statsmodels also multiplies by (n-1)/(n-k), which is 1 for k = 1.
    assert clustered_se(values, codes) == pytest.approx(fit.bse[0], rel=1e-12)


def test_equals_the_ordinary_error_when_every_cluster_is_one_sample() -> None:
    values = np.random.default_rng(2).random(50)
    assert clustered_se(values, np.arange(50)) == pytest.approx(scipy_stats.sem(values), rel=1e-12)


def test_design_effect_of_copies_is_their_number() -> None:
    values = np.random.default_rng(3).random(200)
    codes = np.repeat(np.arange(200), 5)
    assert design_effect(np.repeat(values, 5), codes) == pytest.approx(5 * 200 / 199)
    assert design_effect(np.ones(10), np.repeat([0, 1], 5)) == 1.0


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
    assert mean_score([], []).reason == "no questions"
    alone = mean_score([1, 0, 1], ["h", "h", "h"])
    assert alone.mean == pytest.approx(2 / 3)
    assert alone.se is None
    assert alone.low is None
    assert alone.reason == "only one context, so the error cannot be estimated"


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5])
def test_correlation_within_clusters_is_found_whatever_their_sizes_and_the_means_of_strata(rho: float) -> None:
    rng = np.random.default_rng(8)
    codes = unequal_clusters(rng, 4000)
    strata = (np.arange(4000) % 3)[codes]
    values = rho**0.5 * rng.normal(size=4000)[codes] + (1 - rho) ** 0.5 * rng.normal(size=len(codes)) + 5 * strata
    found = intra_cluster_correlation(values, codes, strata)
    assert found == pytest.approx(rho, abs=0.03)


def test_clusters_that_show_no_correlation_have_none() -> None:
    one, four = np.zeros(4, dtype=np.intp), np.arange(4)
    values = np.array([0.0, 1.0, 0.0, 1.0])
    pairs = np.array([0, 0, 1, 1])
    assert intra_cluster_correlation(values, four, one) is None
    assert intra_cluster_correlation(values, pairs, pairs) is None
    assert intra_cluster_correlation(np.ones(4), pairs, one) is None
    # Each cluster has the whole spread: as unlike as two values can be.
    assert intra_cluster_correlation(values, pairs, one) == pytest.approx(-1)
