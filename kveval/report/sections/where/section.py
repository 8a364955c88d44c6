"""Score against context length, for every variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from kveval.judge.comparison.endpoint import Kind
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.own_score import kinds_of, method_of, own_score, temperature_of
from kveval.judge.comparison.scope import Scope, scopes
from kveval.judge.run_data import RunData
from kveval.judge.statistics.clusters import Score
from kveval.report.endpoints import KIND_LABELS
from kveval.report.html.charts import Chart, score_chart
from kveval.report.section import Section
from kveval.run.facts import Facts
from kveval.run.manifest import VariantRun
from kveval.run.records import ExpectedMethod


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The score of every variant over one scope, of one kind."""

    scope: Scope
    kind: Kind
    scores: dict[str, Score]


@dataclass(frozen=True, slots=True)
class Scores:
    """The charts, and the table behind them. `kinds` has more than the greedy score where answers were forced."""

    charts: list[Chart]
    rows: list[ScoreRow]
    kinds: tuple[Kind, ...]
    temperature: float | None
    method: ExpectedMethod | None
    greedy_only: list[str]


def scores(run: RunData, judgement: Judgement) -> Scores:
    """Returns the scores of every variant as charts and as a table."""
    confidence, kinds = judgement.policy.confidence, kinds_of(run)
    rows = scores_table(run, confidence, kinds)
    return Scores(
        charts(run, rows, confidence, kinds),
        rows,
        kinds,
        temperature_of(run),
        method_of(run),
        [*_without_reference(run), *(greedy_only(run) if len(kinds) > 1 else ())],
    )


def _without_reference(run: RunData) -> list[str]:
    return [f"{task} has no reference: {why}" for task, why in run.manifest.without_reference.items()]


def greedy_only(run: RunData) -> list[str]:
    """Says for each task and variant that lacks expected scores how many it lacks, and why.

    A task in which no sample has a reference is left out: it says why itself.
    """
    found = []
    for task, samples in run.samples.groupby("task", sort=True):
        own = (records.loc[records.index.intersection(samples.index)] for records in run.records.values())
        if task in run.manifest.without_reference and not any(_was_read(records).any() for records in own):
            continue
        for variant in run.baseline_first:
            records = run.records[variant.name]
            records = records.loc[records.index.intersection(samples.index)]
            records = records[records["outcome"] != "engine_error"]
            lacking = records[[not isinstance(one, Mapping) for one in records["expected"]]]
            if len(lacking):
                found.append(
                    f"{task}, {variant.name}: {len(lacking):,} of {len(records):,} answers: {_why(lacking, variant)}"
                )
    return found


def _why_not_read(facts: Facts) -> str:
    if facts.stepwise:
        return "no reference, or one too long to read token by token"
    return "no reference" if facts.forced_decode else "the engine was not forced"


def _was_read(records: pd.DataFrame) -> pd.Series:
    return records["expected"].notna() | records["expected_error"].notna()


def _why(lacking: pd.DataFrame, variant: VariantRun) -> str:
    errors = Counter(one["kind"] for one in lacking["expected_error"] if isinstance(one, Mapping))
    parts = [f"{kind} ({count:,})" for kind, count in errors.most_common()]
    if errors.total() < len(lacking):
        parts.append(_why_not_read(variant.facts))
    return ", ".join(parts)


def scores_table(run: RunData, confidence: float, kinds: Sequence[Kind] = ("greedy",)) -> list[ScoreRow]:
    """Returns the scores of every variant, for each cell, each length and overall.

    Leaves out the expected score of a kind where no variant has one.
    """
    rows = [
        ScoreRow(
            group,
            kind,
            {name: own_score(run, name, group, confidence=confidence, kind=kind) for name in run.manifest.variants},
        )
        for group in scopes(run.samples, "overall", "length", "cell")
        for kind in kinds
    ]
    return [row for row in rows if row.kind == "greedy" or any(score.n for score in row.scores.values())]


def charts(
    run: RunData, table: list[ScoreRow], confidence: float, kinds: tuple[Kind, ...] = ("greedy",)
) -> list[Chart]:
    """Returns charts of all tasks together, of families with several tasks, and of each task. Leaves out A/A runs.

    Beside the chart of each greedy score stands one for each unit of the expected score.
    """
    shown = [variant.name for variant in run.baseline_first if variant.role != "aa" and len(run.records[variant.name])]
    styles = {name: index for index, name in enumerate(shown)}

    def of_kinds(title: str, rows: list[ScoreRow]) -> list[Chart]:
        found = {kind: [row for row in rows if row.kind == kind] for kind in kinds}
        return [
            score_chart(
                f"{title}: {KIND_LABELS[kind]}" if len(kinds) > 1 else title,
                {name: [(row.scope.context_length or 0, row.scores[name]) for row in of_kind] for name in shown},
                styles,
                has_bands=kind != "greedy",
            )
            for kind, of_kind in found.items()
            if of_kind
        ]

    tasks = list(dict.fromkeys(row.scope.task for row in table if row.scope.task))
    by_task = [one for task in tasks for one in of_kinds(task, [row for row in table if row.scope.task == task])]
    if len(tasks) == 1:
        return by_task
    by_family = []
    for family in _families_of_several_tasks(run.samples):
        of_family = replace(run, samples=run.samples[run.samples["family"] == family])
        rows = [row for row in scores_table(of_family, confidence, kinds) if row.scope.level == "length"]
        by_family += of_kinds(f"family {family}", rows)
    return [*of_kinds("all tasks", [row for row in table if row.scope.level == "length"]), *by_family, *by_task]


def _families_of_several_tasks(samples: pd.DataFrame) -> list[str]:
    """Returns the families with several tasks, unless the run has only that family."""
    tasks = samples[["family", "task"]].drop_duplicates().groupby("family").size()
    return [str(family) for family, count in tasks.items() if 1 < count < tasks.sum()]


SECTION = Section("Where: score against context length", 20, scores, link="Where")
