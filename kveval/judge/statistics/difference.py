"""Estimates the paired difference of two variants over the same samples, with its interval and p-value.

The haystack is the unit of every error: questions about one haystack are not independent. An interval keeps a width
even if no sample differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from kveval.judge.statistics.clusters import cluster_codes, clustered_se, design_effect, fewest_clusters
from kveval.judge.statistics.skewness import SkewedT

SIGN_FLIP_BELOW_CLUSTERS = 20
"""With fewer clusters, the sign-flip permutation replaces t. All 2**19 flips can still be enumerated."""

Method = Literal["clustered_t", "sign_flip", "few_clusters_t"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Holds candidate minus baseline over the same samples. A negative difference is a loss.

    Attributes:
        delta: mean of the differences, in [-1, 1]. None without samples.
        se: clustered standard error of `delta`. None with fewer than two clusters.
        low, high: confidence interval in [-1, 1]. None if `se` is None.
        p: two-sided p-value of "no difference". None if `se` is None.
        p_beyond: one-sided p-value of "the loss is at most the margin". None if `se` is None.
        square: mean of the squared differences, in [0, 1]. For scores of 0 and 1 it is the share that differs.
        differing: number of clusters in which any sample differs.
        assumed_effect: the design effect with which `sparse_bounds` made `low`, at least 1.
        method: how the interval was made.
        reason: why a value is None.
    """

    n: int
    clusters: int
    delta: float | None
    se: float | None
    low: float | None
    high: float | None
    p: float | None
    p_beyond: float | None
    square: float | None
    differing: int
    assumed_effect: float
    method: Method | None
    reason: str | None = None


def paired_difference(
    baseline: ArrayLike,
    candidate: ArrayLike,
    clusters: ArrayLike,
    *,
    confidence: float = 0.95,
    margin: float = 0.0,
    rare: bool = True,
    alike: ArrayLike | None = None,
) -> Difference:
    """Returns the mean of ``candidate - baseline`` (both [n], in [0, 1]) with its interval and p-values.

    The method depends on the number of clusters G:

    - From 20 on: Miller's paired clustered estimator, with t of G-1 degrees of freedom (see `SkewedT`).
    - Fewer: all sign flips of the cluster sums, and the interval that inverts them (see `sign_flip`).
    - So few that no flip can reach the confidence (fewer than 6 at 95%): t over the cluster means, which keeps its
      level even if their variances differ (Ibragimov and Mueller, "t-Statistic Based Correlation and Heterogeneity
      Robust Inference", JBES 2010).

    If samples differ in so few clusters that no flip of these could reach the confidence, the interval is widened to
    include that of `sparse_bounds`, and each p-value is the larger of the two. Only `sparse_bounds` has a width when
    hardly any sample differs. With more differing clusters, widening would cover more than the confidence.

    Args:
        margin: the loss that ``p_beyond`` tests.
        rare: the scores change in rare jumps, as those of decoded answers do. False for probabilities, which move on
            every sample: that none moved is then a measurement, and its interval is not widened.
        alike: differences [n] of the same samples that show how losses cluster, where `rare` ones do not: those of
            their probabilities. None if nothing shows it. Then whole contexts may be lost at once, and samples that do
            not differ count as one for each context.
    """
    first, codes, count = cluster_codes(baseline, clusters)
    second = np.asarray(candidate, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} baseline scores for {len(second)} candidate scores")
    values = second - first
    n = len(values)
    if not n:
        return Difference(0, 0, None, None, None, None, None, None, None, 0, 1.0, None, "no questions answered by both")
    delta, square = float(values.mean()), float(np.square(values).mean())
    differing = len(np.unique(codes[values != 0]))
    if count < 2:
        reason = "only one context, so the error cannot be estimated"
        return Difference(n, count, delta, None, None, None, None, None, square, differing, 1.0, None, reason)

    se = clustered_se(values, codes)
    # What was seen is enough to show a loss. To exclude one, contexts that were all spared say little of the others.
    seen = design_effect(first if alike is None else np.asarray(alike, dtype=np.float64), codes)
    unseen = _whole_clusters(codes) if alike is None else seen
    shown, assumed = (1 + (effect - 1) / (1 + differing) for effect in (seen, unseen))
    sparse_low, _, _ = sparse_bounds(delta, square, n / assumed, confidence=confidence)
    low_shown, sparse_high, sparse_se = sparse_bounds(delta, square, n / shown, confidence=confidence)
    sparse_center = (low_shown + sparse_high) / 2
    sparse_p = 2 * float(special.ndtr(-abs(sparse_center) / sparse_se))
    floored_se = max(se, sparse_se) if rare else se
    half = float(special.stdtrit(count - 1, 0.5 + confidence / 2))
    method: Method
    # A loss larger than the margin moves the differences from the margin down.
    excess = delta + margin
    if count >= SIGN_FLIP_BELOW_CLUSTERS:
        method = "clustered_t"
        if se == 0:
            low, high, p, p_beyond = delta, delta, 2 * _t_p(-abs(delta), se, count), _t_p(excess, se, count)
        else:
            skewed = SkewedT.of(np.bincount(codes, values - delta).astype(np.float64))
            below, above = skewed.reach(confidence)
            low, high = delta - below * se, delta + above * se
            p, p_beyond = skewed.two_sided(delta / se), skewed.below(excess / se)
    elif count >= fewest_clusters(confidence):
        method = "sign_flip"
        sizes = np.bincount(codes).astype(np.float64)
        sums = np.bincount(codes, values).astype(np.float64)
        low, high, p = sign_flip(sums, sizes, confidence=confidence)
        p_beyond = sign_flip_below(sums + margin * sizes)
        # Every cluster moved the same way. The permutation cannot tell how far, so t may give a smaller p.
        if p <= 2.0 ** (1 - count):
            p = min(p, 2 * _t_p(-abs(delta), floored_se, count))
        if p_beyond <= 2.0**-count:
            p_beyond = min(p_beyond, _t_p(excess, floored_se, count))
    else:
        method = "few_clusters_t"
        low, high = delta - half * floored_se, delta + half * floored_se
        p, p_beyond = 2 * _t_p(-abs(delta), floored_se, count), _t_p(excess, floored_se, count)
    if rare and differing < fewest_clusters(confidence):
        low, high, p = min(low, sparse_low), max(high, sparse_high), max(p, sparse_p)
        p_beyond = max(p_beyond, float(special.ndtr((sparse_center + margin) / sparse_se)))
    return Difference(
        n, count, delta, se, max(-1.0, low), min(1.0, high), p, p_beyond, square, differing, assumed, method
    )  # fmt: skip


def sparse_bounds(mean: float, square: float, effective: float, *, confidence: float) -> tuple[float, float, float]:
    """Returns (low, high, se) of the mean difference, sound even if few or none of the samples differ.

    This adds z^2 samples to the effective ones, half of them full losses and half full gains, and takes the Wald
    interval: Agresti and Coull's z^2 rule ("Approximate is Better than Exact", American Statistician 1998) on the pairs
    of Agresti and Min ("Simple Improved Confidence Intervals for Comparing Matched Proportions", Statistics in Medicine
    2005). If no sample differs, the half-width is z^2 / (n + z^2). That is Tango's score interval (Statistics in
    Medicine 1998) and close to the rule of three: 10 equal samples cannot exclude 28 points, 190 exclude two.

    Args:
        mean, square: mean of the differences, and of their squares.
        effective: samples over their design effect. Rare differences do not show it, so `paired_difference` starts
            from that of `alike`, or from whole clusters, and gives it the weight of one differing cluster.
    """
    z = float(special.ndtri(0.5 + confidence / 2))
    total = effective + z**2
    center = effective * mean / total
    se = math.sqrt(((effective * square + z**2) / total - center**2) / total)
    return center - z * se, center + z * se, se


def sign_flip(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], *, confidence: float
) -> tuple[float, float, float]:
    """Returns the exact (low, high, p) from all 2^G sign vectors of the cluster sums.

    p is two-sided: the share of sign vectors whose total is at least as far from zero as the observed total (Fisher,
    "The Design of Experiments", 1935, section 21; for clusters Canay, Romano and Shaikh, "Randomization Tests under an
    Approximate Symmetry Assumption", Econometrica 2017). The interval holds the differences that the test does not
    reject. If the difference is x, flipping a set of clusters lowers the total exactly when the mean over that set is
    above x. So the ends are quantiles of the means of all 2^G - 1 sets (Hartigan, "Using Subsample Values as Typical
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


def sign_flip_below(sums: NDArray[np.float64]) -> float:
    """Returns the exact one-sided p-value of "the sums [G] are not below 0": see `sign_flip`."""
    subsets = _subset_sums(sums)
    return float((subsets[-1] - 2 * subsets <= subsets[-1] + 1e-9).mean())


def _whole_clusters(codes: NDArray[np.intp]) -> float:
    """Returns the design effect of samples that are lost together with all others of their cluster."""
    sizes = np.bincount(codes)
    return float(sizes @ sizes) / len(codes)


def _t_p(distance: float, se: float, clusters: int) -> float:
    """Returns the probability that t lies below ``distance / se``."""
    if se == 0:
        return 0.5 if distance == 0 else float(distance > 0)
    return float(special.stdtr(clusters - 1, distance / se))


def _subset_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the sums [2^G] over every subset of `values` [G], the empty one first."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate((sums, sums + value))
    return sums
