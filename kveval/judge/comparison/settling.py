"""What would decide an undecided candidate: a range of samples, and the command that adds them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kveval.judge.comparison.comparison import Comparison

_MOST_TIMES = 4


@dataclass(frozen=True, slots=True)
class Settling:
    """Says how many more questions and contexts would decide a candidate with 80% chance.

    The true number lies between `questions_low` and `questions_high` with a chance of 80%.

    Attributes:
        questions_high, contexts_high: None if there is no useful upper end.
        samples_per_cell: that a cell has then, if the difference and its variance are those seen. Without an upper end,
            five times those of the run at most, or the least that can decide.
        command: adds them to the run. None for answers that are not of one run.
    """

    questions_low: int
    questions_high: int | None
    contexts_low: int
    contexts_high: int | None
    samples_per_cell: int
    command: str | None

    def __str__(self) -> str:
        low, high = self.questions_low, self.questions_high
        if high is None or self.contexts_high is None:
            size = f"at least {low:,} more questions ({self.contexts_low:,} more contexts)"
        elif self.contexts_low <= 1:
            size = f"up to {high:,} more questions ({self.contexts_high:,} more contexts)"
        else:
            size = (
                f"between {low:,} and {high:,} more questions ({self.contexts_low:,} to {self.contexts_high:,} more "
                "contexts)"
            )
        return f"{size} would decide it" + (f": {self.command}" if self.command else "")


def settling(rows: Iterable[Comparison], run: Path | None) -> Settling | None:
    """Returns what decides all undecided `rows` of one candidate. None if no number of samples does, or none is."""
    undecided = [row for row in rows if row.verdict is not None and row.verdict.word == "undecided"]
    needs = [found for row in undecided if (found := _of_row(row, run)) is not None]
    return max(needs, key=lambda one: (one.samples_per_cell, one.questions_low), default=None)


def _of_row(row: Comparison, run: Path | None) -> Settling | None:
    more, difference = row.verdict.more_samples if row.verdict else None, row.difference
    if more is None or not difference.n or not row.cells:
        return None
    per_context = difference.n / difference.clusters

    def contexts(questions: int) -> int:
        return math.ceil(questions / per_context)

    likely = more.likely if more.likely is not None else more.low
    # A loss near the margin may take any number. Some times the run is a step after which one knows more.
    most = more.high if more.high is not None else _MOST_TIMES * difference.n
    aimed = max(more.low, min(likely, most))
    per_cell = math.ceil((difference.clusters + contexts(aimed)) / row.cells) * math.ceil(per_context)
    command = f"kveval sweep --resume --out {shlex.quote(str(run))} --samples {per_cell}" if run else None
    return Settling(
        questions_low=more.low,
        questions_high=more.high,
        contexts_low=contexts(more.low),
        contexts_high=None if more.high is None else contexts(more.high),
        samples_per_cell=per_cell,
        command=command,
    )
