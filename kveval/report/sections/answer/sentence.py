"""One sentence that says where a candidate passes, where it fails and by how much, and what is undecided."""

from __future__ import annotations

from collections.abc import Sequence

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import Headline, held_to, in_words
from kveval.judge.comparison.judgement import Judgement
from kveval.report.labels import length_label, listed
from kveval.report.sentences import word_of


def sentence(judgement: Judgement, headline: Headline) -> str:
    """Returns 'pass up to 2K; fails at 8K: -14.0 points, 95% interval -19.4 to -8.6, 300 questions about ...'."""
    lengths, overall = judgement.of(headline.variant, "length"), judgement.of(headline.variant, "overall")
    if not any(row.difference.n for row in overall):
        return f"{headline.reason}."
    if headline.word == "undecided":
        return f"{in_words(overall[0], judgement.policy.confidence)}; {headline.reason}."
    if headline.word == "pass":
        reason = overall[0].verdict.reason if overall[0].verdict else ""
        return f"pass up to {_length(lengths[-1])}: {reason}."
    parts = [*_passing(lengths), *_failing(judgement, headline, lengths), *_undecided(lengths)]
    return "; ".join(parts) + "."


def _passing(lengths: Sequence[Comparison]) -> list[str]:
    limit = held_to(lengths)
    return [f"pass up to {length_label(limit)}"] if limit else []


def _failing(judgement: Judgement, headline: Headline, lengths: Sequence[Comparison]) -> list[str]:
    failing = [row for row in lengths if word_of(row) == "fail"]
    if failing:
        first, *others = failing
        length = first.scope.context_length
        cells = [row for row in judgement.of(headline.variant, "cell") if row.scope.context_length == length]
        parts = [f"fails at {_length(first)}{_worst_task(cells)}: {in_words(first, judgement.policy.confidence)}"]
        return [*parts, f"also fails at {listed([_length(row) for row in others])}"] if others else parts
    rows = [row for level in ("overall", "family", "cell") for row in judgement.of(headline.variant, level)]
    worst = min((row for row in rows if word_of(row) == "fail"), key=lambda row: row.difference.delta or 0.0)
    place = "over all lengths" if worst.scope.level == "overall" else f"on {worst.scope}"
    return [f"fails {place}: {in_words(worst, judgement.policy.confidence)}"]


def _undecided(lengths: Sequence[Comparison]) -> list[str]:
    names = [_length(row) for row in lengths if word_of(row) == "undecided"]
    return [f"undecided at {listed(names)}"] if names else []


def _worst_task(cells: Sequence[Comparison]) -> str:
    """Names the task that loses most, if one fails by itself and there are others."""
    failing = [row for row in cells if word_of(row) == "fail"]
    if not failing or len(cells) < 2:
        return ""
    worst = min(failing, key=lambda row: row.difference.delta or 0.0)
    return f" (most on {worst.scope.task}, {100 * (worst.difference.delta or 0.0):+.1f})"


def _length(row: Comparison) -> str:
    return length_label(row.scope.context_length)
