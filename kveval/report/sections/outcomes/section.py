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
        asked = run.samples.loc[run.asked(variant)]
        for group in scopes(run.samples, "overall", "length"):
            counts = outcomes.reindex(in_scope(asked, group).index).fillna("missing").value_counts()
            by_outcome = {outcome: int(counts.get(outcome, 0)) for outcome in (*OUTCOMES, "missing")}
            rows.append((variant.name, group.context_length, by_outcome))
    return rows


SECTION = Section("Outcomes", 23, lambda run, _: outcomes_table(run), part_of="where")
