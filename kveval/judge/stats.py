"""Estimates from samples that come in clusters: one score, and the paired difference of two.

Questions about one haystack are not independent, so the haystack is the unit of every error given here. Nothing is
assumed about samples that were not seen: an interval never shrinks to a point because no difference happened to occur.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.stats import binomtest

SIGN_FLIP_BELOW_CLUSTERS = 20
"""With fewer clusters the sign-flip permutation replaces t; 2**19 flips can still all be enumerated."""

Method = Literal["clustered_t", "sign_flip", "few_clusters_t"]


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of one variant's scores.

    Attributes:
        mean: in [0, 1]; None without samples.
        se: clustered standard error of the mean; None with fewer than two clusters.
        low, high: confidence interval in [0, 1]; None where `se` is.
        reason: why a value is None.
    """

    n: int
    clusters: int
    mean: float | None
    se: float | None
    low: float | None
    high: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Candidate minus baseline over the same samples: negative is a loss.

    Attributes:
        delta: mean of the differences, in [-1, 1]; None without samples.
        se: clustered standard error of `delta`; None with fewer than two clusters.
        low, high: confidence interval in [-1, 1]; None where `se` is.
        p: two-sided p-value of "no difference"; None where `se` is.
        square: mean of the squared differences, in [0, 1]: the share that differs, for scores of 0 and 1.
        differing: clusters in which any sample differs.
        assumed_effect: design effect that `sparse_bounds` was given, at least 1.
        method: what made the interval.
        reason: why a value is None.
    """

    n: int
    clusters: int
    delta: float | None
    se: float | None
    low: float | None
    high: float | None
    p: float | None
    square: float | None
    differing: int
    assumed_effect: float
    method: Method | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Flips:
    """Samples whose correctness differs.

    Attributes:
        down: correct on the first side only.
        up: correct on the second side only.
        p: exact McNemar, two-sided; it takes samples as independent.
    """

    down: int
    up: int
    p: float


def fewest_clusters(confidence: float) -> int:
    """Clusters below which no sign-flip test reaches `confidence`, even when all moved the same way: 6 at 95%."""
    return math.ceil(1 - math.log2(1 - confidence) - 1e-9)


def clustered_se(values: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    """Standard error of the mean of `values` [n] whose clusters are `codes` [n] in 0..G-1, G >= 2.

    ``sqrt(G/(G-1) * sum over clusters (sum of residuals)^2) / n``: Miller, "Adding Error Bars to Evals",
    arXiv 2411.00640, equation 4, with the finite-sample factor of the CR1 estimator (Cameron and Miller, "A
    Practitioner's Guide to Cluster-Robust Inference", J. Human Resources 2015, equation 12).
    """
    clusters = int(codes.max()) + 1
    sums = np.bincount(codes, values - values.mean(), clusters)
    return math.sqrt(clusters / (clusters - 1) * float(sums @ sums)) / len(values)


def design_effect(values: NDArray[np.float64], codes: NDArray[np.intp]) -> float:
    """Clustered over independent variance of the mean, at least 1; 1 where the values do not vary."""
    variance = float(values.var()) / len(values)
    if variance <= 0 or codes.max() == 0:
        return 1.0
    return max(1.0, clustered_se(values, codes) ** 2 / variance)


def mean_score(scores: ArrayLike, clusters: ArrayLike, *, confidence: float = 0.95) -> Score:
    """Mean of `scores` [n] in [0, 1] with its clustered interval.

    The interval is Wilson's with the effective sample size ``mean * (1 - mean) / se^2`` and the t quantile of G-1
    degrees of freedom, so it stays inside [0, 1] and has a width at 0 and 1 (Franco, Little, Louis and Slud,
    "Comparative Study of Confidence Intervals for Proportions in Complex Sample Surveys", J. Survey Statistics and
    Methodology 2019). Scores that are all equal count as independent: they do not say otherwise.
    """
    values, codes, count = _arrays(scores, clusters)
    if not len(values):
        return Score(0, 0, None, None, None, None, "no samples")
    mean = float(values.mean())
    if count < 2:
        return Score(len(values), count, mean, None, None, None, "one haystack: nothing to estimate an error from")
    se = clustered_se(values, codes)
    effective = mean * (1 - mean) / se**2 if se > 0 and 0 < mean < 1 else float(len(values))
    t = float(special.stdtrit(count - 1, 0.5 + confidence / 2))
    center = (mean + t**2 / (2 * effective)) / (1 + t**2 / effective)
    half = t / (1 + t**2 / effective) * math.sqrt(mean * (1 - mean) / effective + t**2 / (4 * effective**2))
    return Score(len(values), count, mean, se, max(0.0, center - half), min(1.0, center + half))


def paired_difference(
    baseline: ArrayLike, candidate: ArrayLike, clusters: ArrayLike, *, confidence: float = 0.95
) -> Difference:
    """Mean of ``candidate - baseline`` (both [n], in [0, 1], one sample per position) with its interval and p-value.

    From 20 clusters on: Miller's paired clustered estimator with t of G-1 degrees of freedom. Fewer: all sign flips of
    the cluster sums, and the interval that inverts them (see `sign_flip`). So few that no flip can reach the
    confidence (fewer than 6 at 95%): t over the cluster means, which keeps its level however unequal their variances
    are (Ibragimov and Mueller, "t-Statistic Based Correlation and Heterogeneity Robust Inference", JBES 2010).

    Where samples differ in so few clusters that no flip of those could reach the confidence, the interval is widened to
    hold that of `sparse_bounds`, which alone has a width where hardly a sample differed; the p-value is likewise the
    larger of the two. Widened further up, the intervals would cover more than their confidence.
    """
    first, codes, count = _arrays(baseline, clusters)
    second = np.asarray(candidate, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} baseline scores for {len(second)} candidate scores")
    values = second - first
    n = len(values)
    if not n:
        return Difference(0, 0, None, None, None, None, None, None, 0, 1.0, None, "no samples answered by both")
    delta, square = float(values.mean()), float(np.square(values).mean())
    differing = len(np.unique(codes[values != 0]))
    if count < 2:
        reason = "one haystack: nothing to estimate an error from"
        return Difference(n, count, delta, None, None, None, None, square, differing, 1.0, None, reason)

    se = clustered_se(values, codes)
    assumed = 1 + (design_effect(first, codes) - 1) / (1 + differing)
    sparse_low, sparse_high, sparse_se = sparse_bounds(delta, square, n / assumed, confidence=confidence)
    sparse_p = 2 * float(special.ndtr(-abs(sparse_low + sparse_high) / 2 / sparse_se))
    floored_se = max(se, sparse_se)
    floored_p = _t_p(delta, floored_se, count)
    half = float(special.stdtrit(count - 1, 0.5 + confidence / 2))
    method: Method
    if count >= SIGN_FLIP_BELOW_CLUSTERS:
        method = "clustered_t"
        low, high, p = delta - half * se, delta + half * se, _t_p(delta, se, count)
    elif count >= fewest_clusters(confidence):
        method = "sign_flip"
        sizes = np.bincount(codes).astype(np.float64)
        low, high, p = sign_flip(np.bincount(codes, values).astype(np.float64), sizes, confidence=confidence)
        if p <= 2.0 ** (1 - count):
            # Every cluster moved the same way: the permutation has no finer answer, however large the move was.
            p = min(p, floored_p)
    else:
        method = "few_clusters_t"
        low, high, p = delta - half * floored_se, delta + half * floored_se, floored_p
    if differing < fewest_clusters(confidence):
        low, high, p = min(low, sparse_low), max(high, sparse_high), max(p, sparse_p)
    return Difference(
        n, count, delta, se, max(-1.0, low), min(1.0, high), p, square, differing, assumed, method
    )  # fmt: skip


def sparse_bounds(mean: float, square: float, effective: float, *, confidence: float) -> tuple[float, float, float]:
    """(low, high, se) of the mean difference, sound where few or none of the samples differ.

    z^2 samples are added to the effective ones, half of them full losses and half full gains, before the Wald interval
    is taken: Agresti and Coull's z^2 rule ("Approximate is Better than Exact", American Statistician 1998) on the pairs
    of Agresti and Min ("Simple Improved Confidence Intervals for Comparing Matched Proportions", Statistics in Medicine
    2005). Without any difference the half-width is z^2 / (n + z^2), Tango's score interval (Statistics in Medicine
    1998) and close to the rule of three: 10 equal samples leave 28 points open, 190 leave two.

    Args:
        mean, square: of the differences and of their squares.
        effective: samples over their design effect. Differences that hardly occur cannot tell it; `paired_difference`
            starts from that of the baseline's scores, how strongly questions about one haystack go right or wrong
            together, and gives it the weight of one differing cluster.
    """
    z = float(special.ndtri(0.5 + confidence / 2))
    total = effective + z**2
    center = effective * mean / total
    se = math.sqrt(((effective * square + z**2) / total - center**2) / total)
    return center - z * se, center + z * se, se


def sign_flip(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], *, confidence: float
) -> tuple[float, float, float]:
    """(low, high, p) from all 2^G sign vectors of the cluster sums, exactly.

    p is two-sided: the share of sign vectors whose total is at least as far from zero as the total seen (Fisher, "The
    Design of Experiments", 1935, section 21; for clusters Canay, Romano and Shaikh, "Randomization Tests under an
    Approximate Symmetry Assumption", Econometrica 2017). The interval holds the differences the test would not reject.
    Flipping a set of clusters lowers the total at a supposed difference x exactly when the mean over that set is above
    x, so its ends are quantiles of the means of all 2^G - 1 sets (Hartigan, "Using Subsample Values as Typical
    Values", JASA 1969).

    Args:
        sums: [G] sum of the differences in each cluster, G < 20 and 2^(1-G) <= 1 - confidence.
        sizes: [G] samples in each cluster.
    """
    subsets = _subset_sums(sums)
    total = subsets[-1]
    p = float((np.abs(total - 2 * subsets) >= abs(total) - 1e-9).mean())
    means = subsets[1:] / _subset_sums(sizes)[1:]
    rank = math.floor((1 - confidence) / 2 * len(subsets) + 1e-9)
    ordered = np.partition(means, (rank - 1, len(means) - rank))
    return float(ordered[rank - 1]), float(ordered[len(means) - rank]), p


def flips(baseline_correct: ArrayLike, candidate_correct: ArrayLike) -> Flips:
    """Counts samples [n] whose correctness differs, with McNemar's exact test (Psychometrika 1947).

    Flips are counted both ways because equal scores can hide many of them (Dutta et al., "Accuracy is Not All You
    Need", arXiv 2407.09141).
    """
    first, second = np.asarray(baseline_correct, dtype=bool), np.asarray(candidate_correct, dtype=bool)
    down, up = int((first & ~second).sum()), int((~first & second).sum())
    p = float(binomtest(down, down + up).pvalue) if down + up else 1.0
    return Flips(down, up, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being read together, in the order given (Holm, Scandinavian J. Statistics 1979)."""
    # statsmodels has it too, but collects garbage at every call, 0.2 s each.
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in adjusted]


def _t_p(delta: float, se: float, clusters: int) -> float:
    if se == 0:
        return 1.0 if delta == 0 else 0.0
    return 2 * float(special.stdtr(clusters - 1, -abs(delta) / se))


def _arrays(values: ArrayLike, clusters: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.intp], int]:
    numbers = np.asarray(values, dtype=np.float64)
    names, inverse = np.unique(np.asarray(clusters), return_inverse=True)
    codes = inverse.astype(np.intp)
    if numbers.shape != codes.shape:
        raise ValueError(f"{numbers.shape[0]} values for {codes.shape[0]} cluster names")
    if not np.isfinite(numbers).all():
        raise ValueError("a score is not a finite number")
    return numbers, codes, len(names)


def _subset_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """[2^G] sums over every subset of `values` [G], the empty one first."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums, sums + value))
    return sums
