"""Score by where the answer stands and how long the context is; and by position in a long output."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kveval.judge.diff import pair_variant
from kveval.judge.pairing import answered_by
from kveval.judge.run_data import Run
from kveval.report.html.charts import length_label
from kveval.report.html.view import baseline_first

_BANDS = ((0, 20), (20, 40), (40, 60), (60, 80), (80, 100))
# Points from which a difference has the next colour.
_STEPS_POINTS = (0.5, 3, 8, 15, 30)
QUARTERS = tuple(f"score_q{number}" for number in range(1, 5))


@dataclass(frozen=True, slots=True)
class HeatCell:
    """
    Attributes:
        value: a score in [0, 1], or a difference of scores.
        colour: name of its class in the style sheet.
    """

    value: float
    n: int
    colour: str


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A table whose cells are coloured; None where nothing was asked.

    Attributes:
        is_difference: values are differences from the baseline.
    """

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell | None, ...]], ...]
    is_difference: bool


def depth_heatmaps(run: Run, task: str | None = None) -> list[Heatmap]:
    """Depth by context length: the baseline, then every candidate and its difference; empty without depths."""
    maps: list[Heatmap] = []
    for variant in baseline_first(run):
        if variant.role != "candidate":
            continue
        table = answered_by(pair_variant(run, variant), "baseline", "candidate")
        table = table[table["scored"] & table["depth_percent"].notna()]
        table = table if task is None else table[table["task"] == task]
        if table.empty:
            continue
        lengths = sorted(int(length) for length in table["context_length"].unique())
        bands = [_band(depth) for depth in table["depth_percent"]]
        ours, theirs = table["baseline_score"], table["candidate_score"]
        if not maps:
            maps.append(_depth_map(run.manifest.baseline, ours, table, bands, lengths, is_difference=False))
        maps.append(_depth_map(variant.name, theirs, table, bands, lengths, is_difference=False))
        title = f"{variant.name} - {run.manifest.baseline}, points"
        maps.append(_depth_map(title, theirs - ours, table, bands, lengths, is_difference=True))
    return maps


def tasks_with_depth(run: Run) -> list[str]:
    return sorted(run.samples.loc[run.samples["depth_percent"].notna(), "task"].unique())


def quarter_heatmaps(run: Run) -> list[Heatmap]:
    """Of tasks with long outputs: score of each quarter of the output, by context length and variant."""
    maps = []
    for task in sorted(run.samples["task"].unique()):
        of_task = run.samples[run.samples["task"] == task]
        rows = []
        for length in sorted(of_task["context_length"].unique()):
            ids = of_task.index[of_task["context_length"] == length]
            for variant in baseline_first(run):
                records = run.records[variant.name]
                cells = _quarters(records.loc[records.index.intersection(ids), "metrics"])
                if any(cells):
                    rows.append((f"{variant.name}, {length_label(int(length))}", cells))
        if rows:
            columns = tuple(f"quarter {number}" for number in range(1, 5))
            maps.append(Heatmap(task, "variant, context", columns, tuple(rows), False))
    return maps


def _quarters(metrics: Sequence[dict[str, Any]] | pd.Series) -> tuple[HeatCell | None, ...]:
    cells: list[HeatCell | None] = []
    for quarter in QUARTERS:
        values = [one[quarter] for one in metrics if quarter in one]
        cells.append(_cell(values, is_difference=False))
    return tuple(cells)


def _depth_map(
    title: str, values: pd.Series, table: pd.DataFrame, bands: list[int], lengths: list[int], *, is_difference: bool
) -> Heatmap:
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for band, length, value in zip(bands, table["context_length"], values, strict=True):
        found[band, int(length)].append(float(value))
    rows = tuple(
        (
            f"{low} to {high}%",
            tuple(_cell(found.get((band, length), []), is_difference=is_difference) for length in lengths),
        )
        for band, (low, high) in enumerate(_BANDS)
    )
    return Heatmap(title, "depth", tuple(length_label(length) for length in lengths), rows, is_difference)


def _band(depth_percent: float) -> int:
    return min(int(depth_percent // 20), len(_BANDS) - 1)


def _cell(values: Sequence[float], *, is_difference: bool) -> HeatCell | None:
    if not values:
        return None
    mean = float(np.mean(values))
    if not is_difference:
        return HeatCell(mean, len(values), f"h{min(9, int(10 * mean))}")
    step = sum(100 * abs(mean) >= least for least in _STEPS_POINTS)
    return HeatCell(mean, len(values), "d0" if step == 0 else f"{'loss' if mean < 0 else 'gain'}{step}")
