"""Lists the samples whose correctness differs, with what a reviewer needs to see why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from kveval.judge.comparison.pairing import answered_by, pair_variant
from kveval.judge.run_data import RunData
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class FlippedSample:
    """Shows one sample that only the baseline or only the variant got right.

    Attributes:
        expected: reference answers. Empty if `absent`: the right answer is that the text does not say.
        excerpts: the context around each needle.
        aa_flipped: True if the second run of the baseline flipped too, so that the change may be noise. None if the
            A/A run did not cover the sample.
    """

    sample_id: str
    variant: str
    task: str
    family: str
    context_length: int
    depth_percent: float | None
    direction: Literal["lost", "gained"]
    question: str | None
    expected: tuple[str, ...]
    absent: bool
    excerpts: tuple[str, ...]
    baseline_output: str
    candidate_output: str
    baseline_outcome: str
    candidate_outcome: str
    baseline_score: float
    candidate_score: float
    aa_flipped: bool | None
    aa_outcome: str | None
    control_outcome: str | None


def flipped_samples(run: RunData, variant: VariantRun) -> Iterator[FlippedSample]:
    """Yields the flips of `variant` against the baseline: losses first, then by task, length and sample."""
    table = answered_by(pair_variant(run, variant), "baseline", "candidate")
    flipped = table[table["baseline_correct"] != table["candidate_correct"]]
    flipped = flipped.sort_values(["candidate_correct", "task", "context_length"], kind="stable")
    ours, theirs = run.records[run.manifest.baseline], run.records[variant.name]
    for sample_id, row in flipped.iterrows():
        doc: dict[str, Any] = row["doc"]
        covered = bool(row.get("aa_answered", False))
        control = row.get("control_outcome")
        yield FlippedSample(
            sample_id=str(sample_id),
            variant=variant.name,
            task=row["task"],
            family=row["family"],
            context_length=int(row["context_length"]),
            depth_percent=None if pd.isna(row["depth_percent"]) else float(row["depth_percent"]),
            direction="lost" if row["baseline_correct"] else "gained",
            question=doc.get("question"),
            expected=tuple(str(answer) for answer in doc.get("answers", ())),
            absent=bool(doc.get("absent", False)),
            excerpts=tuple(str(excerpt) for excerpt in doc.get("excerpts", ())),
            baseline_output=str(ours.at[sample_id, "output"]),
            candidate_output=str(theirs.at[sample_id, "output"]),
            baseline_outcome=row["baseline_outcome"],
            candidate_outcome=row["candidate_outcome"],
            baseline_score=float(row["baseline_score"]),
            candidate_score=float(row["candidate_score"]),
            aa_flipped=bool(row["aa_correct"] != row["baseline_correct"]) if covered else None,
            aa_outcome=row["aa_outcome"] if covered else None,
            control_outcome=control if isinstance(control, str) else None,
        )
