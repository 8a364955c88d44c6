"""Score by position in a long output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from kveval.judge.run_data import RunData
from kveval.report.html.charts import HeatCell, Heatmap, heat_cell
from kveval.report.labels import length_label
from kveval.report.section import Section

QUARTERS = tuple(f"score_q{number}" for number in range(1, 5))


def quarter_heatmaps(run: RunData) -> list[Heatmap]:
    """Returns one heatmap per task with long outputs: the score of each quarter, by context length and variant."""
    maps = []
    for task in sorted(run.samples["task"].unique()):
        of_task = run.samples[run.samples["task"] == task]
        rows = []
        for length in sorted(of_task["context_length"].unique()):
            ids = of_task.index[of_task["context_length"] == length]
            for variant in run.baseline_first:
                records = run.records[variant.name]
                cells = _quarters(records.loc[records.index.intersection(ids), "metrics"])
                if any(cells):
                    rows.append((f"{variant.name}, {length_label(int(length))}", cells))
        if rows:
            columns = tuple(f"quarter {number}" for number in range(1, 5))
            maps.append(Heatmap(task, "variant, context", columns, tuple(rows), False))
    return maps


def _quarters(metrics: Sequence[dict[str, Any]] | pd.Series) -> tuple[HeatCell | None, ...]:
    values = ([one[quarter] for one in metrics if quarter in one] for quarter in QUARTERS)
    return tuple(heat_cell(of_quarter, is_difference=False) for of_quarter in values)


SECTION = Section("By position in the output", 22, lambda run, _: quarter_heatmaps(run) or None, part_of="where")
