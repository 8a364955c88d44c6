"""Counts of every outcome, by variant and context length."""

from __future__ import annotations

from kveval.judge.comparison.scope import in_scope, scopes
from kveval.judge.run_data import RunData
from kveval.report.labels import baseline_first
from kveval.report.section import Section
from kveval.run.records import OUTCOMES


def outcomes_table(run: RunData) -> list[tuple[str, int | None, dict[str, int]]]:
    """Returns (variant, context length or None for all, count by outcome). "missing" has no record."""
    rows = []
    for variant in baseline_first(run):
        outcomes = run.records[variant.name]["outcome"]
        for group in scopes(run.samples):
            if group.level not in ("overall", "length"):
                continue
            asked = in_scope(run.samples, group).index
            if variant.role == "aa" and run.manifest.aa_sample_ids is not None:
                asked = asked.intersection(run.manifest.aa_sample_ids)
            counts = outcomes.reindex(asked).fillna("missing").value_counts()
            rows.append(
                (
                    variant.name,
                    group.context_length,
                    {outcome: int(counts.get(outcome, 0)) for outcome in (*OUTCOMES, "missing")},
                )
            )
    return rows


SECTION = Section("Outcomes", 23, lambda run, _: outcomes_table(run), part_of="where")
