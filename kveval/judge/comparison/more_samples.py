"""How many more samples would settle a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import optimize, special

from kveval.config.judge import Policy
from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference, sparse_bounds

MOST_SAMPLES = 10_000_000
POWER = 0.8
"""The chance of a settled verdict that the number of further samples is chosen for."""


def more_samples(difference: Difference, policy: Policy, *, p_factor: float) -> int | None:
    """Returns how many further samples settle the verdict with probability `POWER`, if the gap holds.

    A gain counts as no difference, and haystacks keep their size. For a loss within the margin, the result is the size
    of a non-inferiority trial, ``((t + z_power) * s / (delta + margin))^2`` with ``s = se * sqrt(n)`` (Julious, "Sample
    Sizes for Clinical Trials with Normal Data", Statistics in Medicine 2004, section 5; with the clustered se as in
    Miller, arXiv 2411.00640, section 5). As long as samples would differ in few clusters, it is at least what the
    sparse interval needs. For a loss beyond the margin, it is the size that shows the loss to be significant and
    beyond the margin.

    Args:
        p_factor: the p-value after Holm over the raw one, at least 1: how much smaller p must be.

    Returns:
        None if the difference is exactly at the margin, or if the number is above `MOST_SAMPLES`.
    """
    if difference.delta is None or difference.se is None or difference.square is None:
        return None
    delta = min(difference.delta, 0.0)
    n, clusters = difference.n, difference.clusters
    z_power = float(special.ndtri(POWER))
    half_alpha = (1 - policy.confidence) / 2

    def se_at(size: float) -> float:
        return float(difference.se or 0.0) * math.sqrt(n / size)

    def t_at(size: float, tail: float) -> float:
        return float(-special.stdtrit(max(1.0, clusters * size / n - 1), tail))

    def slack_to_pass(size: float) -> float:
        low, _, se = sparse_bounds(
            delta, difference.square or 0.0, size / difference.assumed_effect, confidence=policy.confidence
        )
        by_t = delta - (t_at(size, half_alpha) + z_power) * se_at(size)
        if difference.differing * size / n >= fewest_clusters(policy.confidence):
            return by_t + policy.margin
        by_sparse = low - z_power * (min(se, se_at(size)))
        return min(by_t, by_sparse) + policy.margin

    def slack_to_fail(size: float) -> float:
        significant = -delta - (t_at(size, half_alpha / p_factor) + z_power) * se_at(size)
        beyond = -delta - policy.margin - z_power * se_at(size)
        return min(significant, beyond)

    slack = slack_to_fail if delta < -policy.margin else slack_to_pass
    size = _smallest(slack, start=n)
    if size is None:
        return None
    by_clusters = fewest_clusters(policy.confidence) * n / clusters
    return max(1, math.ceil(max(size, by_clusters)) - n)


def _smallest(slack: Callable[[float], float], *, start: float) -> float | None:
    """Returns the smallest size from `start` on at which the growing `slack` is positive. None above `MOST_SAMPLES`."""
    if slack(start) > 0:
        return start
    if slack(MOST_SAMPLES) <= 0:
        return None
    return float(optimize.brentq(slack, start, MOST_SAMPLES, xtol=0.5))
