"""Score by where the answer stands in the context, and how long the context is."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pandas as pd

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.pairing import answered_by, pair_variant
from kveval.judge.run_data import RunData
from kveval.report.html.charts import Heatmap, heat_cell
from kveval.report.labels import length_label
from kveval.report.section import Section

_BANDS = ((0, 20), (20, 40), (40, 60), (60, 80), (80, 100))


@dataclass(frozen=True, slots=True)
class Depths:
    """The heatmaps of all tasks together, and of each task if several have depths."""

    overall: list[Heatmap]
    by_task: list[tuple[str, list[Heatmap]]]


def depths(run: RunData, _: Judgement) -> Depths | None:
    """Returns the heatmaps. None if no candidate answered a sample that has a depth."""
    overall, tasks = depth_heatmaps(run), tasks_with_depth(run)
    if not overall:
        return None
    return Depths(overall, [(task, depth_heatmaps(run, task)) for task in tasks] if len(tasks) > 1 else [])


def depth_heatmaps(run: RunData, task: str | None = None) -> list[Heatmap]:
    """Returns depth by context length: the baseline, then every candidate and its difference from the baseline."""
    maps: list[Heatmap] = []
    for variant in run.baseline_first:
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


def tasks_with_depth(run: RunData) -> list[str]:
    """Returns the names of the tasks whose samples have a depth."""
    return sorted(run.samples.loc[run.samples["depth_percent"].notna(), "task"].unique())


def _depth_map(
    title: str, values: pd.Series, table: pd.DataFrame, bands: list[int], lengths: list[int], *, is_difference: bool
) -> Heatmap:
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for band, length, value in zip(bands, table["context_length"], values, strict=True):
        found[band, int(length)].append(float(value))
    rows = tuple(
        (
            f"{low} to {high}%",
            tuple(heat_cell(found.get((band, length), []), is_difference=is_difference) for length in lengths),
        )
        for band, (low, high) in enumerate(_BANDS)
    )
    return Heatmap(title, "depth", tuple(length_label(length) for length in lengths), rows, is_difference)


def _band(depth_percent: float) -> int:
    return min(int(depth_percent // 20), len(_BANDS) - 1)


SECTION = Section("By depth of the answer", 21, depths, part_of="where")
