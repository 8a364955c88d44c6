"""Estimates means and their errors from samples in clusters: questions about one haystack are not independent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


def fewest_clusters(confidence: float) -> int:
    """Returns the fewest clusters with which a sign-flip test can reach `confidence`: 6 at 95%."""
    return math.ceil(1 - math.log2(1 - confidence) - 1e-9)


def clustered_se(values: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    """Returns the standard error of the mean of `values` [n] whose clusters are `codes` [n] in 0..G-1, G >= 2.

    ``sqrt(G/(G-1) * sum over clusters (sum of residuals)^2) / n``: Miller, "Adding Error Bars to Evals",
    arXiv 2411.00640, equation 4, with the finite-sample factor of the CR1 estimator (Cameron and Miller, "A
    Practitioner's Guide to Cluster-Robust Inference", J. Human Resources 2015, equation 12).
    """
    clusters = int(codes.max()) + 1
    sums = np.bincount(codes, values - values.mean(), clusters)
    return math.sqrt(clusters / (clusters - 1) * float(sums @ sums)) / len(values)


def design_effect(values: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    """Returns the clustered over the independent variance of the mean: at least 1, and 1 if all values are equal."""
    variance = float(values.var()) / len(values)
    if variance <= 0 or codes.max() == 0:
        return 1.0
    return max(1.0, clustered_se(values, codes) ** 2 / variance)


def intra_cluster_correlation(
    values: NDArray[np.float64], codes: NDArray[np.intp], strata: NDArray[np.intp]
) -> float | None:
    """Returns the correlation of two values [n] of one cluster, within strata of one mean each.

    ``(MSB - MSW) / (MSB + (m0 - 1) MSW)``, the analysis-of-variance estimator (Donner, "A Review of Inference
    Procedures for the Intraclass Correlation Coefficient in the One-Way Random Effects Model", International
    Statistical Review 1986). It can be below 0.

    Args:
        codes: of the clusters, in 0..G-1. Each lies in one stratum.

    Returns:
        None if values do not differ, no cluster has two of them, or no stratum has two clusters.
    """
    sizes = np.bincount(codes)
    cluster_means = np.bincount(codes, values) / sizes
    own = np.zeros(len(sizes), dtype=np.intp)
    own[codes] = strata
    per_stratum = np.bincount(own, minlength=int(strata.max()) + 1)
    of_stratum = np.bincount(strata)
    means = np.bincount(strata, values) / of_stratum
    between_df = float((per_stratum - 1).sum())
    within_df = len(values) - len(sizes)
    if between_df <= 0 or within_df <= 0:
        return None
    between = float(sizes @ (cluster_means - means[own]) ** 2) / between_df
    within = float(((values - cluster_means[codes]) ** 2).sum()) / within_df
    typical = float((of_stratum - np.bincount(own, sizes**2) / of_stratum).sum()) / between_df
    total = between + (typical - 1) * within
    return (between - within) / total if total > 0 else None


def cluster_codes(values: ArrayLike, clusters: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.intp], int]:
    numbers = np.asarray(values, dtype=np.float64)
    names, inverse = np.unique(np.asarray(clusters), return_inverse=True)
    codes = inverse.astype(np.intp)
    if numbers.shape != codes.shape:
        raise ValueError(f"{numbers.shape[0]} values for {codes.shape[0]} cluster names")
    if not np.isfinite(numbers).all():
        raise ValueError("a score is not a finite number")
    return numbers, codes, len(names)


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
        return Score(0, 0, None, None, None, None, "no questions")
    mean = float(values.mean())
    if count < 2:
        return Score(len(values), count, mean, None, None, None, "only one context, so the error cannot be estimated")
    se = clustered_se(values, codes)
    effective = mean * (1 - mean) / se**2 if se > 0 and 0 < mean < 1 else float(len(values))
    t = float(special.stdtrit(count - 1, 0.5 + confidence / 2))
    center = (mean + t**2 / (2 * effective)) / (1 + t**2 / effective)
    half = t / (1 + t**2 / effective) * math.sqrt(mean * (1 - mean) / effective + t**2 / (4 * effective**2))
    return Score(len(values), count, mean, se, max(0.0, center - half), min(1.0, center + half))
