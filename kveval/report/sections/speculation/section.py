"""Speculative decoding: accepted drafts, and what changed against the same variant without it."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.evidence.speculation import Speculation, speculations
from kveval.judge.run_data import RunData
from kveval.report.section import Section


@dataclass(frozen=True, slots=True)
class SpeculatingVariant:
    """One variant that speculates.

    Attributes:
        rows: its comparisons with the partner, overall and by length. Beside each stands the A/A run's: what differs
            when nothing was changed. None without an A/A run.
    """

    result: Speculation
    rows: tuple[tuple[Comparison, Comparison | None], ...]


def speculating_variants(run: RunData, judgement: Judgement) -> list[SpeculatingVariant]:
    """Returns every variant that speculates."""
    again = judgement.of(run.aa.name, "overall", "length") if run.aa else []
    noise = {row.scope.context_length: row for row in again}
    return [
        SpeculatingVariant(one, tuple((row, noise.get(row.scope.context_length)) for row in one.comparisons))
        for one in speculations(run, judgement.policy)
    ]


SECTION = Section(
    "Speculative decoding", 51, lambda run, judgement: speculating_variants(run, judgement) or None, part_of="cost"
)
