"""Compares two runs or variants, and what `kveval diff --json` prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kveval.judge.diff import AnswerSet, VariantDiff, diff_answers, read_answer_set
from kveval.judge.evidence.drift import Drift, drift_positions, summarize
from kveval.report.documents.rows import comparison_row

DIFF_VERSION = 3


@dataclass(frozen=True, slots=True)
class Diff:
    """`second` against `first`: every pair of variants, each with its drift where both sides kept their outputs."""

    first: str
    second: str
    pairs: tuple[tuple[VariantDiff, Drift | None], ...]


def compare(first: str, second: str) -> Diff:
    """Compares `second` with `first`: each is RUN, RUN:VARIANT or a blessed file.

    Raises:
        KvevalError: one cannot be read, or they cannot be compared.
    """
    sources = read_answer_set(first), read_answer_set(second)
    return Diff(first, second, tuple((pair, _drift(*sources, pair)) for pair in diff_answers(*sources)))


def _drift(first: AnswerSet, second: AnswerSet, pair: VariantDiff) -> Drift | None:
    if not first.has_outputs or not second.has_outputs:
        return None
    samples = second.questions.samples
    positions = drift_positions(first.records[pair.first], second.records[pair.second], samples.index)
    return summarize(positions, samples["haystack_id"])


def diff_document(diff: Diff) -> dict[str, Any]:
    """Returns ``{version, first, second, pairs}``: in each pair a row per group of samples."""
    return {
        "version": DIFF_VERSION,
        "first": diff.first,
        "second": diff.second,
        "pairs": [_pair(pair, drift) for pair, drift in diff.pairs],
    }


def _pair(pair: VariantDiff, drift: Drift | None) -> dict[str, Any]:
    rows = pair.comparisons
    return {
        "first": pair.first,
        "second": pair.second,
        "emulated": list(pair.emulated),
        "problem": asdict(pair.problem) if pair.problem else None,
        "changed_facts": {name: list(values) for name, values in pair.changed_facts.items()},
        "rows": [comparison_row(row) for row in rows],
        "drift": {
            "positions": drift.positions,
            "kl_mean_at_least": drift.kl_mean,
            "kl_max_at_least": drift.kl_max,
            "same_top1": drift.same_top1,
            "token_p_change": drift.token_p_change,
        }
        if drift
        else None,
    }
