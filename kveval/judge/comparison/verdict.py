"""Decides from a difference: pass, fail or undecided, with the reason, and how many more samples would settle it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from scipy import optimize, special

from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference, sparse_bounds

POWER = 0.8
"""The chance of a settled verdict that the number of further samples is chosen for."""


Word = Literal["pass", "fail", "undecided"]

MOST_SAMPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says whether a loss of the margin or more is excluded, shown, or neither.

    Attributes:
        reason: one sentence.
        p_holm: p-value of "no difference", corrected by Holm over the rows judged together.
        more_samples: how many further samples would settle the verdict, if the gap holds. None if none would.
        is_doubted: undecided because the numbers cannot all be true, and not because they are too few.
    """

    word: Word
    reason: str
    margin: float
    p_holm: float | None = None
    more_samples: int | None = None
    is_doubted: bool = False


def decide(
    difference: Difference,
    *,
    margin: float,
    confidence: float,
    p_holm: float | None,
    asked: int,
    sensitive: Difference,
    insensitive: str | None = None,
    obstacle: str | None = None,
    may_gain: bool = False,
) -> Verdict:
    """Returns the verdict of a non-inferiority test that can also fail.

    - fail: the observed loss is beyond the margin, and "no difference" is rejected after Holm.
    - pass: the interval lies above -margin, with every unanswered sample counted as lost. This must hold over all
      cells, and over those alone that can show a loss. (A pass needs no correction for many rows, because all must
      hold at once: Berger, "Multiparameter Hypothesis Testing and Acceptance Sampling", Technometrics 1982.)
    - undecided: neither of these, or something rules out a pass.

    Args:
        confidence: of the verdict, and of the intervals of `difference` and `sensitive`: that of the policy, or
            another one where a run is judged more than once.
        asked: samples the variant should have answered. Those beyond ``difference.n`` count against a pass.
        sensitive: the difference over the cells that can show a loss.
        insensitive: why no cell can show a loss. None if one can.
        obstacle: what rules out a pass whatever the numbers say, such as a stopped variant.
        may_gain: whether a gain beyond the margin can be real. If not, it casts doubt on the baseline.
    """

    def verdict(word: Word, reason: str, more: int | None = None) -> Verdict:
        return Verdict(word, reason, margin, p_holm, more)

    def undecided(reason: str, gap: Difference, p_factor: float) -> Verdict:
        more = more_samples(gap, margin=margin, confidence=confidence, p_factor=p_factor)
        return verdict("undecided", f"{reason}; {_settles(gap, more, margin)}", more)

    allowed, fewest = points(margin), fewest_clusters(confidence)
    if difference.delta is None:
        return verdict("undecided", obstacle or difference.reason or "no questions")
    if p_holm is not None and difference.delta < -margin and p_holm < 1 - confidence:
        lost = points(-difference.delta)
        reason = (
            f"a loss of {lost} points, beyond the margin of {allowed}, and not chance ({p_label(p_holm)} after Holm)"
        )
        return verdict("fail", reason)
    if obstacle:
        return verdict("undecided", obstacle)
    if difference.low is None:
        return verdict("undecided", difference.reason or "no interval")
    if insensitive:
        return verdict("undecided", insensitive)
    p_factor = p_holm / difference.p if p_holm is not None and difference.p else 1.0
    needed = f"a pass at {confidence:.0%} needs at least {fewest} contexts"
    if difference.clusters < fewest:
        return undecided(f"{needed}, and there are {difference.clusters}", difference, p_factor)
    missing = asked - difference.n
    worst = (difference.low * difference.n - missing) / asked
    if difference.low <= -margin:
        loss = f"a loss of {points(-difference.low)} points"
        return undecided(f"{loss} is not excluded (margin {allowed})", difference, p_factor)
    if worst <= -margin:
        unanswered = f"{missing} of {asked} questions have no answer; if they were lost, the loss could reach"
        return verdict("undecided", f"{unanswered} {points(-worst)} points, beyond the margin of {allowed}")
    if sensitive.low is None:
        return verdict("undecided", f"in the cells that can show a loss: {sensitive.reason}")
    if sensitive.clusters < fewest:
        where = f"{needed} in cells that can show a loss, and there are {sensitive.clusters}"
        return undecided(where, sensitive, p_factor=1.0)
    if sensitive.low <= -margin:
        loss = (
            f"over the {sensitive.n} questions whose cells can show a loss, a loss of {points(-sensitive.low)} points"
        )
        return undecided(f"{loss} is not excluded (margin {allowed})", sensitive, p_factor=1.0)
    if difference.low > margin and not may_gain:
        gained = f"a gain of {points(difference.low)} points or more, which no cache format causes"
        reason = f"{gained}: the baseline may be broken"
        return Verdict("undecided", reason, margin, p_holm, is_doubted=True)
    return verdict("pass", f"a loss of more than {allowed} points is excluded at {confidence:.0%}")


def points(share: float) -> str:
    """Formats a difference of scores in percentage points, without the unit: 0.0213 -> '2.1'."""
    return f"{100 * share:.1f}"


def p_label(p: float) -> str:
    """Formats a p-value: 0.0123 -> 'p = 0.012'. One that floating point cannot tell from 0 -> 'p < 1e-16'."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def _settles(difference: Difference, more: int | None, margin: float) -> str:
    if more is None:
        return "the gap is at the margin, so no practical number of questions would settle it"
    word = "fail" if (difference.delta or 0.0) < -margin else "pass"
    contexts = math.ceil(more * difference.clusters / difference.n)
    return (
        f"about {more:,} more questions ({contexts:,} more contexts) would show a {word} with "
        f"{POWER:.0%} chance, if the gap holds"
    )


def more_samples(difference: Difference, *, margin: float, confidence: float, p_factor: float) -> int | None:
    """Returns how many further samples settle the verdict with probability `POWER`, if the gap holds.

    A gain counts as no difference, and haystacks keep their size. For a loss within the margin, the result is the size
    of a non-inferiority trial, ``((t + z_power) * s / (delta + margin))^2`` with ``s = se * sqrt(n)`` (Julious, "Sample
    Sizes for Clinical Trials with Normal Data", Statistics in Medicine 2004, section 5; with the clustered se as in
    Miller, arXiv 2411.00640, section 5). As long as samples would differ in few clusters, it is at least what the
    sparse interval needs. For a loss beyond the margin, it is the size that shows the loss to be significant and
    beyond the margin.

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
        significant = -delta - (t_at(size, half_alpha / p_factor) + z_power) * se_at(size)
        beyond = -delta - margin - z_power * se_at(size)
        return min(significant, beyond)

    slack = slack_to_fail if delta < -margin else slack_to_pass
    size = _smallest(slack, start=n)
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
