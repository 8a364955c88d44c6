"""Score against context length, for every variant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.own_score import own_score
from kveval.judge.comparison.scope import Scope, scopes
from kveval.judge.run_data import RunData
from kveval.judge.statistics.clusters import Score
from kveval.report.html.charts import Chart, score_chart
from kveval.report.section import Section


@dataclass(frozen=True, slots=True)
class Scores:
    """The charts, and the table behind them: (scope, score by variant)."""

    charts: list[Chart]
    rows: list[tuple[Scope, dict[str, Score]]]


def scores(run: RunData, judgement: Judgement) -> Scores:
    """Returns the scores of every variant as charts and as a table."""
    confidence = judgement.policy.confidence
    rows = scores_table(run, confidence)
    return Scores(charts(run, rows, confidence), rows)


def scores_table(run: RunData, confidence: float) -> list[tuple[Scope, dict[str, Score]]]:
    """Returns the score of every variant, for each cell, each length and overall."""
    return [
        (group, {name: own_score(run, name, group, confidence=confidence) for name in run.manifest.variants})
        for group in scopes(run.samples, "overall", "length", "cell")
    ]


def charts(run: RunData, table: list[tuple[Scope, dict[str, Score]]], confidence: float) -> list[Chart]:
    """Returns charts of all tasks together, of families with several tasks, and of each task. Leaves out A/A runs."""
    shown = [variant.name for variant in run.baseline_first if variant.role != "aa" and len(run.records[variant.name])]
    styles = {name: index for index, name in enumerate(shown)}

    def chart(title: str, rows: list[tuple[Scope, dict[str, Score]]]) -> Chart:
        series = {name: [(group.context_length or 0, scores[name]) for group, scores in rows] for name in shown}
        return score_chart(title, series, styles)

    tasks = list(dict.fromkeys(group.task for group, _ in table if group.task))
    by_task = [chart(task, [row for row in table if row[0].task == task]) for task in tasks]
    if len(tasks) == 1:
        return by_task
    by_family = []
    for family in _families_of_several_tasks(run.samples):
        of_family = replace(run, samples=run.samples[run.samples["family"] == family])
        rows = [row for row in scores_table(of_family, confidence) if row[0].level == "length"]
        by_family.append(chart(f"family {family}", rows))
    return [chart("all tasks", [row for row in table if row[0].level == "length"]), *by_family, *by_task]


def _families_of_several_tasks(samples: pd.DataFrame) -> list[str]:
    """Returns the families with several tasks, unless the run has only that family."""
    tasks = samples[["family", "task"]].drop_duplicates().groupby("family").size()
    return [str(family) for family, count in tasks.items() if 1 < count < tasks.sum()]


SECTION = Section("Where: score against context length", 20, scores, link="Where")
