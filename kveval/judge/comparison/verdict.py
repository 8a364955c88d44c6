"""Decides from a difference: pass, fail or undecided, each with its reason in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from kveval.config.judge import Policy
from kveval.judge.comparison.more_samples import POWER, more_samples
from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference

Word = Literal["pass", "fail", "undecided"]

MOST_SAMPLES = 10_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says whether a loss of the margin or more is excluded, shown, or neither.

    Attributes:
        reason: one sentence.
        p_holm: p-value of "no difference", corrected by Holm over the rows judged together.
        more_samples: how many further samples would settle the verdict, if the gap holds. None if the verdict is
            settled, or if no practical number would settle it.
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
    """Returns the verdict of a non-inferiority test that can also fail.

    - fail: the observed loss is beyond the margin, and "no difference" is rejected after Holm.
    - pass: the interval lies above -margin, with every unanswered sample counted as lost. This must hold over all
      cells, and over those alone that can show a loss. (A pass needs no correction for many rows, because all must
      hold at once: Berger, "Multiparameter Hypothesis Testing and Acceptance Sampling", Technometrics 1982.)
    - undecided: neither of these, or something rules out a pass.

    Args:
        asked: samples the variant should have answered. Those beyond ``difference.n`` count against a pass.
        sensitive: the difference over the cells that can show a loss.
        insensitive: why no cell can show a loss. None if one can.
        obstacle: what rules out a pass whatever the numbers say, such as a stopped variant.
    """

    def verdict(word: Word, reason: str, more: int | None = None) -> Verdict:
        return Verdict(word, reason, policy.margin, p_holm, more)

    def undecided(reason: str, gap: Difference, p_factor: float) -> Verdict:
        more = more_samples(gap, policy, p_factor=p_factor)
        return verdict("undecided", f"{reason}; {_settles(gap, more, policy)}", more)

    margin, fewest = points(policy.margin), fewest_clusters(policy.confidence)
    if difference.delta is None:
        return verdict("undecided", obstacle or difference.reason or "no samples")
    if p_holm is not None and difference.delta < -policy.margin and p_holm < 1 - policy.confidence:
        lost = points(-difference.delta)
        reason = (
            f"a loss of {lost} points, beyond the margin of {margin}, and not chance ({p_label(p_holm)} after Holm)"
        )
        return verdict("fail", reason)
    if obstacle:
        return verdict("undecided", obstacle)
    if difference.low is None:
        return verdict("undecided", difference.reason or "no interval")
    if insensitive:
        return verdict("undecided", insensitive)
    p_factor = p_holm / difference.p if p_holm is not None and difference.p else 1.0
    if difference.clusters < fewest:
        needed = f"a pass at {policy.confidence:.0%} needs at least {fewest} haystacks"
        return undecided(f"{needed}, and there are {difference.clusters}", difference, p_factor)
    missing = asked - difference.n
    worst = (difference.low * difference.n - missing) / asked
    if difference.low <= -policy.margin:
        loss = f"a loss of {points(-difference.low)} points"
        return undecided(f"{loss} is not excluded (margin {margin})", difference, p_factor)
    if worst <= -policy.margin:
        unanswered = f"{missing} of {asked} samples have no answer; if they were lost, the loss could reach"
        return verdict("undecided", f"{unanswered} {points(-worst)} points, beyond the margin of {margin}")
    if sensitive.low is None:
        return verdict("undecided", f"in the cells that can show a loss: {sensitive.reason}")
    if sensitive.low <= -policy.margin:
        loss = f"over the {sensitive.n} samples whose cells can show a loss, a loss of {points(-sensitive.low)} points"
        return undecided(f"{loss} is not excluded (margin {margin})", sensitive, p_factor=1.0)
    return verdict("pass", f"a loss of more than {margin} points is excluded at {policy.confidence:.0%}")


def points(share: float) -> str:
    """Formats a difference of scores in percentage points, without the unit: 0.0213 -> '2.1'."""
    return f"{100 * share:.1f}"


def p_label(p: float) -> str:
    """Formats a p-value: 0.0123 -> 'p = 0.012'. One that floating point cannot tell from 0 -> 'p < 1e-16'."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def _settles(difference: Difference, more: int | None, policy: Policy) -> str:
    if more is None:
        return "the gap is at the margin, so no practical number of samples would settle it"
    word = "fail" if (difference.delta or 0.0) < -policy.margin else "pass"
    haystacks = math.ceil(more * difference.clusters / difference.n)
    return (
        f"about {more:,} more samples ({haystacks:,} more haystacks) would show a {word} with "
        f"{POWER:.0%} chance, if the gap holds"
    )
