"""From a difference to a verdict: pass, fail or inconclusive, each with its reason in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from scipy import optimize, special

from kveval.judge.stats import Difference, fewest_clusters, sparse_bounds

Word = Literal["pass", "fail", "inconclusive"]

MOST_SAMPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user accepts.

    Attributes:
        margin: the largest acceptable loss of score, > 0.
        margins: the margin of a family, where it is another.
        confidence: of every interval; 1 - confidence bounds the false alarms over all rows judged together.
        power: chance to settle that "more samples" aims at.
        floor, ceiling: baseline scores at or beyond which a cell cannot show a loss.
        inconclusive: whether a gate lets an open verdict through.
        min_baseline_score: a baseline below it cannot be compared with; 0 asks for nothing.
        max_unanswered_share: of a variant's samples, above which a gate blames the infrastructure.
    """

    margin: float = 0.02
    margins: Mapping[str, float] = field(default_factory=dict)
    confidence: float = 0.95
    power: float = 0.8
    floor: float = 0.05
    ceiling: float = 0.99
    inconclusive: Literal["block", "allow"] = "block"
    min_baseline_score: float = 0.0
    max_unanswered_share: float = 0.02

    def over(self, families: Iterable[str]) -> Policy:
        """The policy for samples of these families, one entry per sample: its margin is the mean of theirs.

        What loses exactly its margin in every family loses exactly that mean over all of them.
        """
        margins = [self.margins.get(family, self.margin) for family in families]
        return replace(self, margin=math.fsum(margins) / len(margins)) if margins and self.margins else self


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    Attributes:
        p_holm: p-value of "no difference" after Holm over the rows judged together.
        more_samples: samples beyond the present ones that would settle it with the policy's power, were the present
            difference the true one; None where it is settled or no number would do.
    """

    word: Word
    reason: str
    margin: float
    p_holm: float | None = None
    more_samples: int | None = None


def decide(
    difference: Difference,
    *,
    policy: Policy,
    p_holm: float | None,
    asked: int,
    sensitive: Difference,
    insensitive: str | None = None,
    obstacle: str | None = None,
) -> Verdict:
    """Non-inferiority with three ends.

    - fail: the loss seen is beyond the margin, and "no difference" is rejected after Holm.
    - pass: the interval's lower end is above -margin, with every unanswered sample counted as lost; over all cells, and
      over those alone that can show a loss. (Passing needs no correction for many rows: all must hold at once,
      Berger, "Multiparameter Hypothesis Testing and Acceptance Sampling", Technometrics 1982.)
    - inconclusive: neither, or something stands in the way of a pass.

    Args:
        asked: samples the variant should have answered; those beyond ``difference.n`` count against a pass.
        sensitive: the difference over the cells that are not at floor or ceiling.
        insensitive: why no cell can show a loss, None when one can.
        obstacle: why a pass cannot be given whatever the numbers say, as for a stopped variant.
    """

    def verdict(word: Word, reason: str, more_samples: int | None = None) -> Verdict:
        return Verdict(word, reason, policy.margin, p_holm, more_samples)

    margin = points(policy.margin)
    if difference.delta is None:
        return verdict("inconclusive", obstacle or difference.reason or "no samples")
    if p_holm is not None and difference.delta < -policy.margin and p_holm < 1 - policy.confidence:
        return verdict(
            "fail",
            f"a loss of {points(-difference.delta)} points, beyond the margin of {margin}, and not chance "
            f"({p_label(p_holm)} after Holm)",
        )
    if obstacle:
        return verdict("inconclusive", obstacle)
    if difference.low is None:
        return verdict("inconclusive", difference.reason or "no interval")
    if insensitive:
        return verdict("inconclusive", insensitive)
    p_factor = p_holm / difference.p if p_holm is not None and difference.p else 1.0
    if difference.clusters < fewest_clusters(policy.confidence):
        more = more_samples(difference, policy, p_factor=p_factor)
        return verdict(
            "inconclusive",
            f"{difference.clusters} haystacks cannot carry a pass at {policy.confidence:.0%}, at least "
            f"{fewest_clusters(policy.confidence)} are needed; {_settles(difference, more, policy)}",
            more,
        )
    missing = asked - difference.n
    worst = (difference.low * difference.n - missing) / asked
    if difference.low > -policy.margin and worst <= -policy.margin:
        return verdict("inconclusive", f"{missing} of {asked} samples have no answer; were they lost, the loss could "
                       f"reach {points(-worst)} points, beyond the margin of {margin}")  # fmt: skip
    if worst > -policy.margin:
        if sensitive.low is not None and sensitive.low > -policy.margin:
            return verdict("pass", f"a loss of more than {margin} points is excluded at {policy.confidence:.0%}")
        if sensitive.low is None:
            return verdict("inconclusive", f"where the baseline is not at floor or ceiling: {sensitive.reason}")
        more = more_samples(sensitive, policy, p_factor=1.0)
        return verdict(
            "inconclusive",
            f"over the {sensitive.n} samples whose cells can show a loss, one of {points(-sensitive.low)} points is "
            f"not excluded (margin {margin}); {_settles(sensitive, more, policy)}",
            more,
        )
    more = more_samples(difference, policy, p_factor=p_factor)
    return verdict(
        "inconclusive",
        f"a loss of {points(-difference.low)} points is not excluded (margin {margin}); "
        f"{_settles(difference, more, policy)}",
        more,
    )


def more_samples(difference: Difference, policy: Policy, *, p_factor: float) -> int | None:
    """Samples beyond the present ones that settle the verdict with probability ``policy.power``.

    Takes the present difference as the true one, but a gain as no difference, and haystacks of the same size. For a
    loss within the margin it is the size of a non-inferiority trial, ``((t + z_power) * s / (delta + margin))^2``
    with ``s = se * sqrt(n)`` (Julious, "Sample Sizes for Clinical Trials with Normal Data", Statistics in Medicine
    2004, section 5; with the clustered se as in Miller, arXiv 2411.00640, section 5), and while samples would differ
    in few clusters no fewer than the sparse interval needs. For a loss beyond it, the size at which the loss is found
    significant and beyond the margin.

    Args:
        p_factor: Holm-adjusted over raw p-value, at least 1: how much smaller p must be.

    Returns:
        None when the difference stands exactly at the margin, or the number is above ten million.
    """
    if difference.delta is None or difference.se is None or difference.square is None:
        return None
    delta = min(difference.delta, 0.0)
    n, clusters = difference.n, difference.clusters
    z_power = float(special.ndtri(policy.power))
    half_alpha = (1 - policy.confidence) / 2

    def se_at(size: float) -> float:
        return float(difference.se or 0.0) * math.sqrt(n / size)

    def t_at(size: float, tail: float) -> float:
        return float(-special.stdtrit(max(1.0, clusters * size / n - 1), tail))

    def slack_to_pass(size: float) -> float:
        low, _, se = sparse_bounds(
            delta, difference.square or 0.0, size / difference.assumed_effect, confidence=policy.confidence
        )
        by_t = delta - (t_at(size, half_alpha) + z_power) * se_at(size)
        if difference.differing * size / n >= fewest_clusters(policy.confidence):
            return by_t + policy.margin
        by_sparse = low - z_power * (min(se, se_at(size)))
        return min(by_t, by_sparse) + policy.margin

    def slack_to_fail(size: float) -> float:
        significant = -delta - (t_at(size, half_alpha / p_factor) + z_power) * se_at(size)
        beyond = -delta - policy.margin - z_power * se_at(size)
        return min(significant, beyond)

    slack = slack_to_fail if delta < -policy.margin else slack_to_pass
    size = _smallest(slack, start=n)
    if size is None:
        return None
    by_clusters = fewest_clusters(policy.confidence) * n / clusters
    return max(1, math.ceil(max(size, by_clusters)) - n)


def points(share: float) -> str:
    """A difference of scores in percentage points, without its unit: 0.0213 -> '2.1'."""
    return f"{100 * share:.1f}"


def p_label(p: float) -> str:
    """0.0123 -> 'p = 0.012'; what floating point cannot tell from 0 -> 'p < 1e-16'."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def _smallest(slack: Callable[[float], float], *, start: float) -> float | None:
    """Smallest size from `start` on at which the growing `slack` is positive; None above `MOST_SAMPLES`."""
    if slack(start) > 0:
        return start
    if slack(MOST_SAMPLES) <= 0:
        return None
    return float(optimize.brentq(slack, start, MOST_SAMPLES, xtol=0.5))


def _settles(difference: Difference, more: int | None, policy: Policy) -> str:
    if more is None:
        return "it stands at the margin, and no practical number of samples would settle it"
    word = "fail" if (difference.delta or 0.0) < -policy.margin else "pass"
    haystacks = math.ceil(more * difference.clusters / difference.n)
    return (
        f"about {more:,} more samples ({haystacks:,} more haystacks) would show a {word} with "
        f"{policy.power:.0%} chance, were the present difference the true one"
    )
