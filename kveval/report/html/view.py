"""What each section of the report shows, as plain data; no HTML."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from kveval.judge.diff import Judgement
from kveval.judge.drift import Drift, drift_positions, ratio_to_noise, summarize
from kveval.judge.pairing import Group, Level, groups, members
from kveval.judge.run_data import Run
from kveval.judge.scores import own_score
from kveval.judge.stats import Score
from kveval.report.html.charts import Chart, score_chart
from kveval.report.rows import comparison_row
from kveval.run.facts import Facts
from kveval.run.manifest import VariantRun
from kveval.run.records import OUTCOMES

# They differ between launches of the same engine, and say nothing about its answers.
_VOLATILE_FACTS = {"startup_seconds", "kv_cache_gib", "log_path"}
_CAPACITY_FACTS = {"kv_capacity_tokens", "kv_capacity_ratio"}


@dataclass(frozen=True, slots=True)
class Fact:
    value: Any
    differs: bool
    note: str | None = None


def facts_table(run: Run) -> list[tuple[str, list[Fact]]]:
    """(fact, its value for every variant), the baseline's first; differences from it are marked."""
    variants = baseline_first(run)
    reference = variants[0].facts
    keys = [key for key in Facts.model_fields if key != "declared"]
    table = []
    for key in keys:
        if all(getattr(variant.facts, key) in (None, []) for variant in variants):
            continue
        row = []
        for variant in variants:
            facts = variant.facts
            value = getattr(facts, key)
            differs = value is not None and key not in _VOLATILE_FACTS and value != getattr(reference, key)
            saves_nothing = key in _CAPACITY_FACTS and facts.is_emulated
            note = "emulated: no memory saved" if saves_nothing else "declared" if facts.is_declared(key) else None
            row.append(Fact(", ".join(map(str, value)) if isinstance(value, list) else value, differs, note))
        table.append((key, row))
    return table


def scores_table(run: Run, confidence: float) -> list[tuple[Group, dict[str, Score]]]:
    """(cell, length or overall; score by variant)."""
    return [
        (group, {name: own_score(run, name, group, confidence=confidence) for name in run.manifest.variants})
        for group in groups(run.samples)
        if group.level != "family"
    ]


def charts(run: Run, table: list[tuple[Group, dict[str, Score]]], confidence: float) -> list[Chart]:
    """All tasks together, then each family of several tasks, then each task; A/A runs are left out."""
    shown = [variant.name for variant in baseline_first(run) if variant.role != "aa" and len(run.records[variant.name])]
    styles = {name: index for index, name in enumerate(shown)}

    def chart(title: str, rows: list[tuple[Group, dict[str, Score]]]) -> Chart:
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
    """Those that are not all there is."""
    tasks = samples[["family", "task"]].drop_duplicates().groupby("family").size()
    return [str(family) for family, count in tasks.items() if 1 < count < tasks.sum()]


def outcomes_table(run: Run) -> list[tuple[str, int | None, dict[str, int]]]:
    """(variant, context length or None for all, count by outcome); "missing" has no record."""
    rows = []
    for variant in baseline_first(run):
        outcomes = run.records[variant.name]["outcome"]
        for group in groups(run.samples):
            if group.level not in ("overall", "length"):
                continue
            asked = members(run.samples, group).index
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


def noise_table(judgement: Judgement, run: Run) -> list[dict[str, Any]]:
    """Flips and identical outputs of every candidate and control beside the A/A run's, by length and overall."""
    return [
        {"variant": name, **comparison_row(row)}
        for name, variant in run.manifest.variants.items()
        if variant.role in ("candidate", "control")
        for level in ("length", "overall")
        for row in judgement.of(name, level)
        if row.noise is not None
    ]


def drift_table(run: Run, levels: tuple[Level, ...] = ("overall", "length")) -> list[dict[str, Any]]:
    """Drift of every variant but the baseline, by group, beside the A/A run's on the same samples."""
    aa = run.variant("aa", run.manifest.baseline)
    # Samples as numbers: a large run has a million positions, and comparing ids as text takes most of a minute.
    haystacks = pd.Series(pd.factorize(run.samples["haystack_id"])[0])
    noise = _numbered_positions(run, aa) if aa else None
    rows = []
    for variant in run.manifest.variants.values():
        if variant.role in ("baseline", "aa"):
            continue
        positions = _numbered_positions(run, variant)
        for group in groups(run.samples):
            if group.level not in levels:
                continue
            of_group = run.samples.index.isin(members(run.samples, group).index)
            drift = summarize(_of(positions, of_group), haystacks)
            if drift is None:
                continue
            beside, ratio = _beside_noise(positions, noise, of_group, haystacks)
            rows.append(
                {
                    "variant": variant.name,
                    "level": group.level,
                    "task": group.task,
                    "context_length": group.context_length,
                    **asdict(drift),
                    "aa": asdict(beside) if beside else None,
                    "ratio": ratio,
                }
            )
    return rows


def _numbered_positions(run: Run, variant: VariantRun) -> pd.DataFrame:
    """`drift_positions` of every sample; sample_id is the row of the sample."""
    baseline = run.records[run.manifest.baseline]
    positions = drift_positions(baseline, run.records[variant.name], run.samples.index)
    return positions.assign(sample_id=run.samples.index.get_indexer(pd.Index(positions["sample_id"])))


def _of(positions: pd.DataFrame, chosen: np.ndarray) -> pd.DataFrame:
    """Positions of the samples for which `chosen`, bool [samples], is true."""
    return positions[chosen[positions["sample_id"].to_numpy(dtype=np.intp)]]


def _beside_noise(
    positions: pd.DataFrame, noise: pd.DataFrame | None, chosen: np.ndarray, haystacks: pd.Series
) -> tuple[Drift | None, float | None]:
    """The A/A drift of the chosen samples, and the ratio to it of the variant's on the samples it covers."""
    if noise is None:
        return None, None
    of_group = _of(noise, chosen)
    covered = np.zeros(len(chosen), dtype=bool)
    covered[of_group["sample_id"].to_numpy(dtype=np.intp)] = True
    beside = summarize(of_group, haystacks)
    return beside, ratio_to_noise(summarize(_of(positions, covered), haystacks), beside)


def baseline_first(run: Run) -> list[VariantRun]:
    """Every variant of the run, in its order but for the baseline."""
    return sorted(run.manifest.variants.values(), key=lambda variant: variant.name != run.manifest.baseline)
