"""Counts of every outcome, by variant and context length."""

from __future__ import annotations

from kveval.judge.comparison.comparison import count_outcomes
from kveval.judge.comparison.scope import in_scope, scopes
from kveval.judge.run_data import RunData
from kveval.report.section import Section


def outcomes_table(run: RunData) -> list[tuple[str, int | None, dict[str, int]]]:
    """Returns (variant, context length or None for all, count by outcome). "missing" has no record."""
    rows = []
    for variant in run.baseline_first:
        outcomes = run.records[variant.name]["outcome"]
        asked = run.samples.loc[run.asked(variant)]
        for group in scopes(run.samples, "overall", "length"):
            of_group = outcomes.reindex(in_scope(asked, group).index).fillna("missing")
            rows.append((variant.name, group.context_length, count_outcomes(of_group)))
    return rows


SECTION = Section("Outcomes", 23, lambda run, _: outcomes_table(run), part_of="where")
