"""How many samples a test needs to settle, at what is known of the variance."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import optimize, special

from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference, sparse_bounds

POWER = 0.8
"""The chance of a settled verdict that a number of samples is chosen for."""

MOST_SAMPLES = 10_000_000


def more_samples(difference: Difference, *, margin: float, confidence: float, p_factor: float) -> int | None:
    """Returns how many further samples settle the verdict with probability `POWER`, if the gap holds.

    A gain counts as no difference, and haystacks keep their size. The result is the size of a non-inferiority trial,
    ``((t + z_power) * s / (delta + margin))^2`` with ``s = se * sqrt(n)`` (Julious, "Sample Sizes for Clinical Trials
    with Normal Data", Statistics in Medicine 2004, section 5; with the clustered se as in Miller, arXiv 2411.00640,
    section 5). For a loss beyond the margin, the same size shows that. As long as samples would differ in few clusters,
    it is at least what the sparse interval needs.

    `p_factor` is the p-value after Holm over the raw one, at least 1: how much smaller p must be. None if the
    difference is exactly at the margin, or if the number is above `MOST_SAMPLES`.
    """
    if difference.delta is None or difference.se is None or difference.square is None:
        return None
    delta = min(difference.delta, 0.0)
    n, clusters = difference.n, difference.clusters
    z_power = float(special.ndtri(POWER))
    half_alpha = (1 - confidence) / 2

    def se_at(size: float) -> float:
        return float(difference.se or 0.0) * math.sqrt(n / size)

    def t_at(size: float, tail: float) -> float:
        return float(-special.stdtrit(max(1.0, clusters * size / n - 1), tail))

    def slack_to_pass(size: float) -> float:
        low, _, se = sparse_bounds(
            delta, difference.square or 0.0, size / difference.assumed_effect, confidence=confidence
        )
        by_t = delta - (t_at(size, half_alpha) + z_power) * se_at(size)
        if difference.differing * size / n >= fewest_clusters(confidence):
            return by_t + margin
        by_sparse = low - z_power * (min(se, se_at(size)))
        return min(by_t, by_sparse) + margin

    def slack_to_fail(size: float) -> float:
        return -delta - margin - (t_at(size, half_alpha / p_factor) + z_power) * se_at(size)

    size = _smallest(slack_to_fail if delta < -margin else slack_to_pass, start=n)
    if size is None:
        return None
    by_clusters = fewest_clusters(confidence) * n / clusters
    return max(1, math.ceil(max(size, by_clusters)) - n)


def _smallest(slack: Callable[[float], float], *, start: float) -> float | None:
    """Returns the smallest size from `start` on at which the growing `slack` is positive. None above `MOST_SAMPLES`."""
    if slack(start) > 0:
        return start
    if slack(MOST_SAMPLES) <= 0:
        return None
    return float(optimize.brentq(slack, start, MOST_SAMPLES, xtol=0.5))
