"""Clustered errors equal those of statsmodels, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats

from kveval.judge.statistics.clusters import clustered_se, design_effect


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
