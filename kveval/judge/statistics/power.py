"""How many samples a test needs to settle, at what is known of the variance, and how sure that number is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy import optimize, special

from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference, sparse_bounds

POWER = 0.8
"""The chance of a settled verdict that a number of samples is chosen for."""

MOST_SAMPLES = 10_000_000
# With 75% for the variance and 75% for the gap, the range of both holds the true number in 80% of simulated runs.
_RANGE = 0.75
_WIDEST_RANGE = 10


@dataclass(frozen=True, slots=True)
class MoreSamples:
    """Says how many further samples settle a verdict with probability `POWER`.

    Attributes:
        low, high: the true number lies between them with a chance of 80%. `high` is None if with it there would be more
            than ten times the samples as with `low`, or if the true difference may be at the margin itself.
        likely: if the true difference and variance are those seen. None if the difference is at the margin.
    """

    low: int
    high: int | None
    likely: int | None


def more_samples(difference: Difference, *, margin: float, confidence: float, p_factor: float) -> MoreSamples | None:
    """Returns how many further samples settle a verdict. None if the difference has no error, or no number does.

    The number depends on two things that a run only estimates. The variance has a chi-square distribution with one
    degree of freedom less than there are haystacks, and fewer if few samples differ: a count of F varies by 1/F of its
    square. The gap to the margin has the error of the difference. The ends of the range take the favourable, or the
    unfavourable, end of both.

    Args:
        p_factor: the p-value after Holm over the raw one, at least 1: how much smaller p must be.
    """
    delta, se = difference.delta, difference.se
    if delta is None or se is None or difference.square is None or difference.clusters < 2:
        return None

    def size(of: float, variance: float) -> int | None:
        supposed = replace(
            difference,
            delta=of,
            se=(difference.se or 0.0) * math.sqrt(variance),
            square=max(difference.square or 0.0, of**2),
        )
        return _size_to_settle(supposed, margin=margin, confidence=confidence, p_factor=p_factor)

    count = max(difference.n * difference.square, difference.differing, 1)
    freedom = 2 / (2 / (difference.clusters - 1) + 1 / count)
    tail = (1 - _RANGE) / 2
    least, most = (freedom / float(special.chdtri(freedom, p)) for p in (tail, 1 - tail))
    reach = float(special.stdtrit(freedom, 1 - tail)) * _error(difference, confidence)
    is_sparse = difference.differing < fewest_clusters(confidence)
    delta = min(delta, 0.0)
    worse, better = delta - reach, min(delta + reach, 0.0)
    likely = size(delta, 1)
    # It can settle on either side of the margin. The sooner one bounds the range below. Where hardly a sample differs,
    # nothing speaks for a large loss, and the interval needs the haystacks that would have shown one.
    sides = (better,) if is_sparse and delta > -margin else (worse, better)
    soonest = min((found for end in sides if (found := size(end, least)) is not None), default=likely)
    if soonest is None:
        return None
    latest = None if worse <= -margin <= better else max(size(end, most) or math.inf for end in (worse, better))
    is_useful = latest is not None and latest <= _WIDEST_RANGE * soonest
    return MoreSamples(
        low=_more(soonest, difference),
        high=_more(int(latest), difference) if latest is not None and is_useful else None,
        likely=None if likely is None else _more(likely, difference),
    )


def _more(size: int, difference: Difference) -> int:
    return max(1, size - difference.n)


def _error(difference: Difference, confidence: float) -> float:
    """Returns the standard error of the gap. Where hardly a sample differs, the clustered one shows too little."""
    se = difference.se or 0.0
    if difference.differing >= fewest_clusters(confidence):
        return se
    effective = difference.n / difference.assumed_effect
    return max(
        se, sparse_bounds(difference.delta or 0.0, difference.square or 0.0, effective, confidence=confidence)[2]
    )


def _size_to_settle(difference: Difference, *, margin: float, confidence: float, p_factor: float) -> int | None:
    """Returns how many samples settle the verdict with probability `POWER`, if the difference is exactly that.

    A gain counts as no difference, and haystacks keep their size. The result is the size of a non-inferiority trial,
    ``((t + z_power) * s / (delta + margin))^2`` with ``s = se * sqrt(n)`` (Julious, "Sample Sizes for Clinical Trials
    with Normal Data", Statistics in Medicine 2004, section 5; with the clustered se as in Miller, arXiv 2411.00640,
    section 5). For a loss beyond the margin, the same size shows that. As long as samples would differ in few clusters,
    it is at least what the sparse interval needs. None if the difference is exactly at the margin, or if the size is
    above `MOST_SAMPLES`.
    """
    delta = min(difference.delta or 0.0, 0.0)
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

    # With fewer haystacks than these there is no test.
    start = max(1.0, min(n, 3 * n / clusters))
    size = _smallest(slack_to_fail if delta < -margin else slack_to_pass, start=start)
    if size is None:
        return None
    by_clusters = fewest_clusters(confidence) * n / clusters
    return math.ceil(max(size, by_clusters))


def _smallest(slack: Callable[[float], float], *, start: float) -> float | None:
    """Returns the smallest size from `start` on at which the growing `slack` is positive. None above `MOST_SAMPLES`."""
    if slack(start) > 0:
        return start
    if slack(MOST_SAMPLES) <= 0:
        return None
    return float(optimize.brentq(slack, start, MOST_SAMPLES, xtol=0.5))
