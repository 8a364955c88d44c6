"""The answer for one candidate in one sentence, and the context length up to which it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison, at_levels, in_words
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.scope import SUMMARY_LEVELS
from kveval.judge.comparison.settling import Settling, settling
from kveval.judge.comparison.verdict import ReasonCode, Word


@dataclass(frozen=True, slots=True)
class Headline:
    """Sums up all rows of a candidate.

    It fails if any row fails. It passes if overall, every length, and every family with its own margin pass. Rows of
    advisory families count for neither.

    Attributes:
        reason_code: of the row that decides.
        settling: what would decide it. None if it is decided, or if no number of samples would.
    """

    variant: str
    word: Word
    reason_code: ReasonCode
    reason: str
    settling: Settling | None = None

    @property
    def sentence(self) -> str:
        """The reason, and what would decide it."""
        return self.reason if self.settling is None else f"{self.reason}; {self.settling}"


def headlines(judgement: Judgement) -> list[Headline]:
    """Returns one headline for every candidate, in the order of the run."""
    judged = [row for row in judgement.comparisons if row.verdict is not None]
    found = []
    for name in dict.fromkeys(row.variant for row in judged):
        rows = [row for row in judged if row.variant == name]
        problem = judgement.void_of(rows[0])
        found.append(
            Headline(name, "undecided", "answers_not_trusted", problem.message)
            if problem
            else headline(rows, judgement.policy, judgement.run)
        )
    return found


def headline(comparisons: Sequence[Comparison], policy: Policy, run: Path | None = None) -> Headline:
    """Returns the headline of one variant from all of its rows, which have verdicts.

    With `run`, the directory they were measured in, it says how to add samples there.
    """
    variant = comparisons[0].variant
    advisory = _of_word([c for c in comparisons if c.is_advisory], "fail")
    comparisons = [c for c in comparisons if not c.is_advisory]
    (overall,) = at_levels(comparisons, "overall")
    if overall.unscored and not overall.asked:
        return Headline(variant, "undecided", _code(overall), _reason(overall))
    # Rows without a scored sample say nothing about quality.
    scored = [c for c in comparisons if c.asked or not c.unscored]
    summary = at_levels(scored, *SUMMARY_LEVELS)
    summary += [c for c in at_levels(scored, "family") if c.scope.family in policy.margins]
    if not any(one.difference.n for one in overall.evidence(policy)):
        return Headline(variant, "undecided", _code(overall), f"not measured: {_reason(overall)}")
    failed, unsettled = _of_word(summary, "fail") or _of_word(comparisons, "fail"), _of_word(summary, "undecided")
    passed = [c for c in _of_word(summary, "pass") if c.scope.level == "length"]
    parts = [f"passes {_where(passed)}"] if passed else []
    decides = overall
    if failed:
        decides = worst = min(failed, key=lambda c: c.difference.delta or 0.0)
        others = [c for c in failed if c is not worst]
        also = f" (also {_where(others)})" if others else ""
        parts.append(f"fails {_where([worst])}: {in_words(worst.shown, policy.confidence)}{also}")
        if unsettled:
            parts.append(f"undecided {_where(unsettled)}")
    elif unsettled:
        decides = unsettled[0]
        parts.append(f"undecided {_where([decides])}: {_reason(decides)}")
    else:
        parts.append(_reason(overall))
    if advisory:
        parts.append(f"does not block, because advisory: {_where(advisory)}, which loses more than the margin")
    word: Word = "fail" if failed else "undecided" if unsettled else "pass"
    more = settling(unsettled, run) if word == "undecided" else None
    return Headline(variant, word, _code(decides), "; ".join(parts), more)


def held_to(lengths: Sequence[Comparison]) -> int | None:
    """Returns the longest context length up to which all of `lengths` pass. None if the shortest does not."""
    limit = None
    for row in lengths:
        if row.verdict is None or row.verdict.word != "pass":
            break
        limit = row.scope.context_length
    return limit


def _of_word(comparisons: Sequence[Comparison], word: Word) -> list[Comparison]:
    return [c for c in comparisons if c.verdict is not None and c.verdict.word == word]


def _reason(comparison: Comparison) -> str:
    return comparison.verdict.reason if comparison.verdict is not None else ""


def _code(comparison: Comparison) -> ReasonCode:
    return comparison.verdict.reason_code if comparison.verdict is not None else "not_measured"


def _where(comparisons: list[Comparison]) -> str:
    return listed([str(c.scope) if c.scope.level == "overall" else f"at {c.scope}" for c in comparisons])


def listed(names: Sequence[str]) -> str:
    """['8K', '16K', '32K'] -> '8K, 16K and 32K'."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
