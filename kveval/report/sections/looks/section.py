"""What each look at a candidate found while it was asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.run_data import RunData
from kveval.report.section import Section
from kveval.run.looks import LengthFinding, Look
from kveval.run.manifest import VariantRun

_WIDTH, _EDGE = 240, 8


@dataclass(frozen=True, slots=True)
class LookRow:
    """One look at one context length of a candidate.

    Attributes:
        questions: of this length that count at the look.
        confidence: of the interval: looks share the error rate of one test.
        left, middle, right: where the interval and its middle stand in a drawing `_WIDTH` wide. None if unknown.
    """

    variant: str
    context_length: int
    look: Look
    finding: LengthFinding
    questions: int
    confidence: float
    left: float | None
    middle: float | None
    right: float | None


@dataclass(frozen=True, slots=True)
class LookTable:
    """Attributes: margin, zero: where they stand in the drawings; `planned`: looks of the plan."""

    rows: list[LookRow]
    planned: int
    width: int
    zero: float
    margin: float


def looks_table(run: RunData, judgement: Judgement) -> LookTable | None:
    """Returns every look that found something. None if nothing was judged while it was asked."""
    found = list(_findings(run))
    if not found:
        return None
    margin = judgement.policy.margin
    ends = [margin * 2, *(abs(end) for *_, one in found for end in (one.low, one.high) if end is not None)]
    most = min(max(ends), 5 * max(margin, 0.01))

    def place(value: float | None) -> float | None:
        if value is None:
            return None
        inside = max(-most, min(most, value))
        return round(_EDGE + (_WIDTH - 2 * _EDGE) * (inside + most) / (2 * most), 1)

    rows = [
        LookRow(
            variant.name, length, look, one, _questions(run, look, length),
            1 - (1 - judgement.policy.confidence) * look.error_share,
            place(one.low), place(one.delta), place(one.high),
        )
        for variant, look, length, one in found
    ]  # fmt: skip
    rows.sort(key=lambda row: (row.variant, row.context_length, row.look.number))
    return LookTable(rows, len(run.manifest.planned_looks), _WIDTH, place(0.0) or 0.0, place(-margin) or 0.0)


def _findings(run: RunData) -> Iterator[tuple[VariantRun, Look, int, LengthFinding]]:
    for variant in run.manifest.variants.values():
        for look in variant.looks:
            for length, one in look.lengths.items():
                yield variant, look, length, one


def _questions(run: RunData, look: Look, context_length: int) -> int:
    samples = run.samples
    return int(((samples["context_length"] == context_length) & (samples["first_look"] <= look.number)).sum())


SECTION = Section("What each look found", 54, looks_table, link="Looks")
