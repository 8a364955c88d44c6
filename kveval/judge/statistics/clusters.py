"""Estimates errors from samples in clusters: questions about one haystack are not independent."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


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


def cluster_codes(values: ArrayLike, clusters: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.intp], int]:
    numbers = np.asarray(values, dtype=np.float64)
    names, inverse = np.unique(np.asarray(clusters), return_inverse=True)
    codes = inverse.astype(np.intp)
    if numbers.shape != codes.shape:
        raise ValueError(f"{numbers.shape[0]} values for {codes.shape[0]} cluster names")
    if not np.isfinite(numbers).all():
        raise ValueError("a score is not a finite number")
    return numbers, codes, len(names)
