"""Estimates the mean score of one variant, with its clustered interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy import special

from kveval.judge.statistics.clusters import cluster_codes, clustered_se


@dataclass(frozen=True, slots=True)
class Score:
    """Holds the mean of one variant's scores.

    Attributes:
        mean: in [0, 1]. None without samples.
        se: clustered standard error of the mean. None with fewer than two clusters.
        low, high: confidence interval in [0, 1]. None if `se` is None.
        reason: why a value is None.
    """

    n: int
    clusters: int
    mean: float | None
    se: float | None
    low: float | None
    high: float | None
    reason: str | None = None


def mean_score(scores: ArrayLike, clusters: ArrayLike, *, confidence: float = 0.95) -> Score:
    """Returns the mean of `scores` [n] in [0, 1] with its clustered interval.

    The interval is Wilson's with the effective sample size ``mean * (1 - mean) / se^2`` and the t quantile of G-1
    degrees of freedom, so it stays inside [0, 1] and has a width at 0 and 1 (Franco, Little, Louis and Slud,
    "Comparative Study of Confidence Intervals for Proportions in Complex Sample Surveys", J. Survey Statistics and
    Methodology 2019). Scores that are all equal count as independent, because they show no correlation.
    """
    values, codes, count = cluster_codes(scores, clusters)
    if not len(values):
        return Score(0, 0, None, None, None, None, "no samples")
    mean = float(values.mean())
    if count < 2:
        return Score(len(values), count, mean, None, None, None, "only one haystack, so the error cannot be estimated")
    se = clustered_se(values, codes)
    effective = mean * (1 - mean) / se**2 if se > 0 and 0 < mean < 1 else float(len(values))
    t = float(special.stdtrit(count - 1, 0.5 + confidence / 2))
    center = (mean + t**2 / (2 * effective)) / (1 + t**2 / effective)
    half = t / (1 + t**2 / effective) * math.sqrt(mean * (1 - mean) / effective + t**2 / (4 * effective**2))
    return Score(len(values), count, mean, se, max(0.0, center - half), min(1.0, center + half))
