"""Finds the night since which a series of differences lies on another level.

The method: split the nights at every place, compare the mean before with the mean after by a z-test, nights weighted by
their own variance, and take the split with the smallest p-value. Bonferroni corrects for the splits. So a series whose
level never changes gives a step with a probability of `error` at most, where each night's interval holds what it says.
Nights that ask the same questions differ less than their intervals say, which makes false alarms rarer still.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level. `index` is the first night after it; `before` and `after` are means, `p` is corrected."""

    index: int
    before: float
    after: float
    p: float


def find_step(series: Sequence[tuple[float, float]], *, error: float) -> Step | None:
    """Returns the clearest step in a series of (difference, standard error), oldest first. None if none is shown.

    Args:
        error: the largest probability of a step where there is none, in (0, 1).
    """
    steps = [_split(series, index) for index in range(1, len(series))]
    best = min(steps, key=lambda step: step.p, default=None)
    return best if best is not None and best.p < error else None


def _split(series: Sequence[tuple[float, float]], index: int) -> Step:
    (before, variance_before), (after, variance_after) = _mean(series[:index]), _mean(series[index:])
    z = abs(after - before) / math.sqrt(variance_before + variance_after)
    p = 2 * NormalDist().cdf(-z)
    return Step(index, before, after, min(1.0, p * (len(series) - 1)))


def _mean(part: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the weighted mean and its variance."""
    weights = [1 / error**2 for _, error in part]
    total = sum(weights)
    return sum(weight * value for weight, (value, _) in zip(weights, part, strict=True)) / total, 1 / total
