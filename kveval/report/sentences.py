"""Sentences about one candidate that the page, the history and the terminal share."""

from __future__ import annotations

from collections.abc import Sequence

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import held_to
from kveval.report.labels import length_label


def word_of(row: Comparison) -> str | None:
    """Returns the word of the row's verdict; None for controls and A/A runs."""
    return row.verdict.word if row.verdict is not None else None


def proven_safe(lengths: Sequence[Comparison]) -> str:
    """Says up to which context length everything passes, and why no further: 'nothing yet (1K undecided)'."""
    if not lengths:
        return "no context length was asked"
    limit = held_to(lengths)
    beyond = next((row for row in lengths if word_of(row) != "pass"), None)
    if beyond is None:
        return f"{length_label(limit)}, the longest asked"
    why = {"fail": "fails", "undecided": "undecided"}.get(word_of(beyond) or "", "not judged")
    return f"{length_label(limit) if limit else 'nothing yet'} ({length_label(beyond.scope.context_length)} {why})"


def what_decides(rows: Sequence[Comparison]) -> list[str]:
    """Says for each undecided row what would decide it."""
    return [
        f"{_place(row)}: {_more(row)}" for row in rows if row.verdict is not None and row.verdict.word == "undecided"
    ]


def _place(row: Comparison) -> str:
    length = row.scope.context_length
    return "overall" if length is None else f"at {length_label(length)}"


def _more(row: Comparison) -> str:
    difference, verdict = row.difference, row.verdict
    if verdict is None or verdict.more_samples is None or not difference.n:
        return verdict.reason if verdict else ""
    contexts = -(-verdict.more_samples * difference.clusters // difference.n)
    return f"about {verdict.more_samples:,} more questions about {contexts:,} more contexts"
