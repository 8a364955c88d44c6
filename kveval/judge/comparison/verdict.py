"""Decides from a difference: pass, fail or undecided, with the reason, and how many more samples would settle it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference
from kveval.judge.statistics.power import MoreSamples, more_samples

Word = Literal["pass", "fail", "undecided"]

ReasonCode = Literal[
    "loss_excluded",
    "small_real_loss",
    "loss_beyond_margin",
    "real_loss_within_reach_of_margin",
    "loss_not_excluded",
    "loss_not_excluded_where_it_can_show",
    "unanswered_could_exceed_margin",
    "too_few_contexts",
    "cannot_show_a_loss",
    "no_interval",
    "not_measured",
    "not_scored",
    "not_complete",
    "impossible_gain",
    "contradicted_by_greedy",
    "answers_not_trusted",
]
"""Names each reason of a verdict, the same in every version: for programs, where `Verdict.reason` is for people."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says whether a loss larger than the margin is excluded, shown, or neither.

    Attributes:
        reason: one sentence.
        p_holm: p-value of "the loss is at most the margin", corrected by Holm over the rows judged together.
        more_samples: how many further samples would settle the verdict. None if none would.
    """

    word: Word
    reason_code: ReasonCode
    reason: str
    margin: float
    p_holm: float | None = None
    more_samples: MoreSamples | None = None

    @property
    def is_doubted(self) -> bool:
        """Whether it is undecided because the numbers cannot all be true, and not because they are too few."""
        return self.reason_code in ("impossible_gain", "contradicted_by_greedy")


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

    - fail: the interval lies below -margin, and "the loss is at most the margin" is rejected after Holm.
    - pass: the interval lies above -margin, with every unanswered sample counted as lost. This must hold over all
      cells, and over those alone that can show a loss. (A pass needs no correction for many rows, because all must
      hold at once: Berger, "Multiparameter Hypothesis Testing and Acceptance Sampling", Technometrics 1982.)
    - undecided: neither of these, or something rules out a pass.

    Args:
        margin: the largest loss accepted, which ``difference.p_beyond`` tests.
        confidence: of the verdict, and of the intervals of `difference` and `sensitive`: that of the policy, or another
            one where a run is judged more than once. Each side of an interval, and the test of a fail, has half of the
            error that it leaves.
        asked: samples the variant should have answered. Those beyond ``difference.n`` count against a pass.
        sensitive: the difference over the cells that can show a loss.
        insensitive: why no cell can show a loss. None if one can.
        obstacle: what rules out a pass whatever the numbers say, such as a stopped variant.
        may_gain: whether a gain beyond the margin can be real. If not, it casts doubt on the baseline.
    """

    def verdict(word: Word, code: ReasonCode, reason: str, more: MoreSamples | None = None) -> Verdict:
        return Verdict(word, code, reason, margin, p_holm, more)

    def undecided(code: ReasonCode, reason: str, gap: Difference, p_factor: float) -> Verdict:
        more = more_samples(gap, margin=margin, confidence=confidence, p_factor=p_factor)
        return verdict("undecided", code, reason, more)

    allowed, fewest = points(margin), fewest_clusters(confidence)
    delta, low, high = difference.delta, difference.low, difference.high
    if delta is None:
        return verdict(
            "undecided",
            "not_complete" if obstacle else "not_measured",
            obstacle or difference.reason or "no questions",
        )
    is_beyond = high is not None and high < -margin
    if is_beyond and p_holm is not None and p_holm < (1 - confidence) / 2:
        reason = (
            f"a loss of {points(-delta)} points, more than the margin of {allowed}: statistically significant "
            f"({_adjusted(p_holm)})"
        )
        return verdict("fail", "loss_beyond_margin", reason)
    if obstacle:
        return verdict("undecided", "not_complete", obstacle)
    if low is None or high is None:
        return verdict("undecided", "no_interval", difference.reason or "no interval")
    if insensitive:
        return verdict("undecided", "cannot_show_a_loss", insensitive)
    p_factor = p_holm / difference.p_beyond if p_holm is not None and difference.p_beyond else 1.0
    if difference.clusters < fewest:
        reason = f"too few contexts to pass: {difference.clusters} of {fewest} required"
        return undecided("too_few_contexts", reason, difference, p_factor)
    if low <= -margin:
        if high < 0:
            reason = f"a real loss of {points(-delta)} points, not shown to exceed the margin of {allowed}"
            if is_beyond and p_holm is not None:
                reason += f" once all rows are counted ({_adjusted(p_holm)})"
            return undecided("real_loss_within_reach_of_margin", reason, difference, p_factor)
        change = "scored the same" if round(delta, 3) == 0 else f"scored {points(abs(delta))} points {_way(delta)}"
        reason = f"not enough data: it {change}, but the true change could be anywhere from {_range(low, high)} points"
        if not difference.differing and difference.assumed_effect > 1:
            reason += (
                f"; no answer differs, but {difference.clusters:,} contexts can miss a fault that ruins whole ones"
            )
        return undecided("loss_not_excluded", reason, difference, p_factor)
    missing = asked - difference.n
    worst = (low * difference.n - missing) / asked
    if worst <= -margin:
        reason = (
            f"{missing} of {asked} questions have no answer; if they were lost, the loss could reach {points(-worst)} "
            f"points, beyond the margin of {allowed}"
        )
        return verdict("undecided", "unanswered_could_exceed_margin", reason)
    if sensitive.low is None:
        return verdict("undecided", "no_interval", f"in the cells that can show a loss: {sensitive.reason}")
    if sensitive.clusters < fewest:
        where = f"too few contexts to pass in cells that can show a loss: {sensitive.clusters} of {fewest} required"
        return undecided("too_few_contexts", where, sensitive, p_factor=1.0)
    if sensitive.low <= -margin:
        reason = (
            f"not enough data: over the {sensitive.n} questions whose cells can show a loss, the true change could be "
            f"as low as {100 * sensitive.low:+.1f} points"
        )
        return undecided("loss_not_excluded_where_it_can_show", reason, sensitive, p_factor=1.0)
    if low > margin and not may_gain:
        reason = f"a gain of {points(low)} points or more, which no cache format causes: the baseline may be broken"
        return verdict("undecided", "impossible_gain", reason)
    excluded = f"a loss of more than {allowed} points is excluded at {confidence:.0%}"
    if high < 0:
        return verdict("pass", "small_real_loss", f"a small real loss of {points(-delta)} points; {excluded}")
    return verdict("pass", "loss_excluded", excluded)


def points(share: float) -> str:
    """Formats a difference of scores in percentage points, without the unit: 0.0213 -> '2.1'."""
    return f"{100 * share:.1f}"


def p_label(p: float) -> str:
    """Formats a p-value: 0.0123 -> 'p = 0.012'. One that floating point cannot tell from 0 -> 'p < 1e-16'."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def _adjusted(p: float) -> str:
    return f"adjusted {p_label(p)}"


def _way(delta: float) -> str:
    return "lower" if delta < 0 else "higher"


def _range(low: float, high: float) -> str:
    return f"{100 * low:+.1f} to {100 * high:+.1f}"
