"""Means with clustered errors, and percentiles, of values that may not be finite.

A value that is not finite is an outcome. Leaving it out would favour the variant that caused it, so it takes the mean
away, and percentiles rank it as the worst.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kveval.judge.statistics.clusters import cluster_codes, clustered_se

Floats = NDArray[np.float64]

# exp of more is no number.
_MOST_NATS = 700.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean, or a function of one, and its clustered standard error.

    Attributes:
        reason: why a value is None.
    """

    value: float | None
    se: float | None
    reason: str | None = None

    def times(self, factor: float) -> Estimate:
        """Returns the value times `factor`, and its error."""
        value, se = (None if number is None else number * factor for number in (self.value, self.se))
        return Estimate(value, se, self.reason)

    def exp(self) -> Estimate:
        """Returns exp of the value. Its error is that of the delta method."""
        if self.value is None:
            return self
        if self.value > _MOST_NATS:
            return Estimate(None, None, f"not finite: exp({self.value:.3g})")
        exp = math.exp(self.value)
        return Estimate(exp, None if self.se is None else self.se * exp, self.reason)

    def sqrt(self) -> Estimate:
        """Returns the square root of the value. Its error is that of the delta method."""
        if self.value is None:
            return self
        root = math.sqrt(self.value)
        return Estimate(root, self.se / (2 * root) if self.se is not None and root else self.se, self.reason)


def mean(values: NDArray[np.generic], clusters: NDArray[np.generic]) -> Estimate:
    """Returns the mean of `values` [n], n > 0, whose clusters are named in `clusters` [n]."""
    not_finite = int((~np.isfinite(values.astype(np.float64))).sum())
    if not_finite:
        return Estimate(None, None, f"not finite: {not_finite:,} token{'s' if not_finite > 1 else ''}")
    numbers, codes, count = cluster_codes(values, clusters)
    if count < 2:
        return Estimate(float(numbers.mean()), None, "no error: one context")
    return Estimate(float(numbers.mean()), clustered_se(numbers, codes))


def percentiles(
    values: Floats, percents: Iterable[float], *, worst: Literal["largest", "smallest"]
) -> list[float | None]:
    """Returns percentiles, linear between neighbours. None where one is not finite.

    Args:
        worst: where NaN ranks.
    """
    ranked = np.sort(np.where(np.isnan(values), np.inf if worst == "largest" else -np.inf, values))
    found = []
    for percent in percents:
        place = percent / 100 * (len(ranked) - 1)
        at, part = int(place), place - int(place)
        pair = ranked[at : at + 2] if part else ranked[at : at + 1]
        is_finite = bool(np.isfinite(pair).all())
        found.append(float(pair[0] + part * (pair[-1] - pair[0])) if is_finite else None)
    return found
