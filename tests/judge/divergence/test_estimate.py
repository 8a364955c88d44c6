"""Means know what is not finite, and percentiles rank it as the worst."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kveval.judge.divergence.estimate import Estimate, mean, percentiles

PERCENTS = (0.0, 0.1, 5.0, 33.3, 50.0, 90.0, 99.9, 100.0)


@pytest.mark.parametrize("count", [1, 2, 5, 1000, 1001])
def test_percentiles_of_numbers_are_those_of_numpy(count: int) -> None:
    values = np.random.default_rng(count).exponential(size=count)
    assert percentiles(values, PERCENTS, worst="largest") == pytest.approx(np.percentile(values, PERCENTS).tolist())


def test_what_is_not_finite_ranks_as_the_worst() -> None:
    values = np.array([3.0, np.inf, 1.0, np.nan, 2.0])
    assert percentiles(values, (0, 25, 50, 62.5, 75, 100), worst="largest") == [1, 2, 3, None, None, None]
    assert percentiles(values, (0, 24, 25, 50, 75, 100), worst="smallest") == [None, None, 1, 2, 3, None]


def test_a_mean_of_what_is_not_finite_is_none_with_a_reason() -> None:
    names = np.array(["a", "a", "b"])
    for broken in (np.nan, np.inf, -np.inf):
        assert mean(np.array([0.0, broken, 1.0]), names) == Estimate(None, None, "not finite: 1 token")


def test_one_context_has_no_error_and_says_so() -> None:
    assert mean(np.array([0.0, 1.0]), np.array(["a", "a"])) == Estimate(0.5, None, "no error: one context")


def test_functions_of_a_mean_carry_its_error_or_its_reason() -> None:
    one = Estimate(0.25, 0.01)
    assert one.sqrt() == Estimate(0.5, pytest.approx(0.01))
    assert one.exp() == Estimate(pytest.approx(math.exp(0.25)), pytest.approx(0.01 * math.exp(0.25)))
    assert one.times(100) == Estimate(25.0, 1.0)
    assert Estimate(0.0, 0.0).sqrt() == Estimate(0.0, 0.0)
    nothing = Estimate(None, None, "why")
    assert nothing.exp() == nothing.sqrt() == nothing.times(2) == nothing
    assert Estimate(1e30, 1.0).exp() == Estimate(None, None, "not finite: exp(1e+30)")
