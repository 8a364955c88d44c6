"""The first flips of a check, in short excerpts, for verdict.json and summary.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from kveval.judge.comparison.comparison import at_levels
from kveval.judge.comparison.pairing import answered_by
from kveval.judge.gate.check import Check
from kveval.judge.run_data import RunData
from kveval.report.text import shortened

MOST_FLIPS = 20
EXCERPT_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class FlipExcerpt:
    """One flip.

    Attributes:
        before: the output on the baseline's side. None for a blessed run, which keeps no outputs.
        noise_too: whether the A/A run flipped there as well. None where it did not ask.
    """

    sample_id: str
    direction: Literal["lost", "gained"]
    task: str
    context_length: int
    depth_percent: float | None
    question: str | None
    expected: list[str | None]
    before_outcome: str
    after_outcome: str
    before: str | None
    after: str | None
    noise_too: bool | None


def flip_excerpts(run: RunData, check: Check) -> Iterator[FlipExcerpt]:
    """Returns at most 20 flips: losses before gains, in the order of the worst cells."""
    if check.pair is None:
        return
    pairs = answered_by(check.pair.table, "baseline", "candidate")
    flipped = pairs[pairs["baseline_correct"] != pairs["candidate_correct"]]
    delta = {
        (row.scope.task, row.scope.context_length): row.difference.delta or 0.0
        for row in at_levels(check.comparisons, "cell")
    }
    places = zip(flipped["task"], flipped["context_length"], strict=True)
    order = pd.DataFrame(
        {"gain": flipped["candidate_correct"].to_numpy(), "cell": [delta[place] for place in places]},
        index=flipped.index,
    ).sort_values(["gain", "cell"], kind="stable")
    for sample_id in order.index[:MOST_FLIPS]:
        row = flipped.loc[sample_id]
        yield FlipExcerpt(
            sample_id=sample_id,
            direction="lost" if row["baseline_correct"] else "gained",
            task=row["task"],
            context_length=int(row["context_length"]),
            depth_percent=None if pd.isna(row["depth_percent"]) else float(row["depth_percent"]),
            question=_excerpt(row["doc"].get("question")),
            expected=[_excerpt(answer) for answer in row["doc"].get("answers", ())],
            before_outcome=row["baseline_outcome"],
            after_outcome=row["candidate_outcome"],
            before=_excerpt(_output(run, check.against, sample_id)),
            after=_excerpt(_output(run, check.variant, sample_id)),
            noise_too=bool(row["aa_correct"] != row["baseline_correct"]) if row.get("aa_answered", False) else None,
        )


def _output(run: RunData, variant: str | None, sample_id: Any) -> str | None:
    return str(run.records[variant].at[sample_id, "output"]) if variant is not None and variant in run.records else None


def _excerpt(text: Any) -> str | None:
    if text is None:
        return None
    shown, left_out = shortened(str(text), EXCERPT_CHARACTERS)
    return f"{shown} … {left_out} more characters" if left_out else shown
