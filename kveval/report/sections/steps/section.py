"""Right steps by step number and by generated tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.evidence.output_length import OutputBin, step_curves
from kveval.judge.run_data import RunData
from kveval.report.html.charts import Chart, night_chart
from kveval.report.labels import length_label
from kveval.report.section import Section


@dataclass(frozen=True, slots=True)
class StepCurves:
    """One chart for each cell, and the table behind them."""

    charts: list[Chart]
    rows: list[OutputBin]


def step_section(run: RunData, judgement: Judgement) -> StepCurves | None:
    """Returns the curves. None if no task of the run asks for chains of steps."""
    rows = step_curves(run, confidence=judgement.policy.confidence)
    cells = dict.fromkeys(row.scope for row in rows)
    charts = [_chart(run, [row for row in rows if row.scope == cell]) for cell in cells]
    return StepCurves(charts, rows) if rows else None


def _chart(run: RunData, rows: Sequence[OutputBin]) -> Chart:
    bins = list(dict.fromkeys((row.first, row.last) for row in rows))
    names = [f"{first}-{last}" if first < last else str(first) for first, last in bins]
    shown = [one.name for one in run.baseline_first if one.role != "aa"]
    series = {
        name: [(bins.index((row.first, row.last)), row.own) for row in rows if row.variant == name] for name in shown
    }
    scope = rows[0].scope
    return night_chart(f"{scope.task} at {length_label(scope.context_length)}: right steps, by step", names, series)


SECTION = Section("By step of a chain", 25, step_section, part_of="where")
