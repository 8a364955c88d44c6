"""Corrects a t interval for the skewness of rare losses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special


@dataclass(frozen=True, slots=True)
class SkewedT:
    """The t statistic of a mean over clusters, without and with the correction for their skewness.

    If some contexts lose much and most lose nothing, a sample with few losses also has a small standard error. Then t
    alone excludes the margin too often: at a loss of exactly the margin, in 5% instead of 2.5% of runs of 100 contexts.
    Hall's monotone transformation removes that skewness ("On the Removal of Skewness by Transformation", J. Royal
    Statistical Society B 1992, equation 4). Each bound and each p-value is the more careful of both, so a correction
    never makes a verdict easier.

    Attributes:
        freedom: degrees of freedom.
        skew: skewness of the cluster sums over the root of their number.
    """

    freedom: int
    skew: float

    @classmethod
    def of(cls, residuals: NDArray[np.float64]) -> SkewedT:
        """Takes the sums [G] of the residuals in each cluster."""
        square = float(np.mean(residuals**2))
        skewness = float(np.mean(residuals**3)) / square**1.5 if square > 0 else 0.0
        return cls(len(residuals) - 1, skewness / math.sqrt(len(residuals)))

    def reach(self, confidence: float) -> tuple[float, float]:
        """Returns how many standard errors the interval reaches below and above the mean."""
        t = float(special.stdtrit(self.freedom, 0.5 + confidence / 2))
        return max(t, self._inverse(t)), max(t, -self._inverse(-t))

    def below(self, statistic: float) -> float:
        """Returns the p-value of a mean that lies below what is tested: `statistic` standard errors from it."""
        return max(float(special.stdtr(self.freedom, x)) for x in (statistic, self._transformed(statistic)))

    def two_sided(self, statistic: float) -> float:
        """Returns the p-value of a mean that lies off what is tested, in either direction."""
        side = -1 if statistic > 0 else 1
        tails = (side * x for x in (statistic, self._transformed(statistic)))
        return min(1.0, 2 * max(float(special.stdtr(self.freedom, x)) for x in tails))

    def _transformed(self, t: float) -> float:
        if abs(self.skew) < 1e-9:
            return t
        return ((1 + self.skew * t / 3) ** 3 - 1) / self.skew + self.skew / 6

    def _inverse(self, t: float) -> float:
        if abs(self.skew) < 1e-9:
            return t
        return 3 * (float(np.cbrt(1 + self.skew * (t - self.skew / 6))) - 1) / self.skew
