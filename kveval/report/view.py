"""What each section of the report shows, as plain data; no HTML."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from kveval.judge.diff import Judgement, pair_variant
from kveval.judge.drift import Drift, drift_positions, ratio_to_noise, summarize
from kveval.judge.flipped import FlippedSample, flipped_samples
from kveval.judge.headline import headlines
from kveval.judge.pairing import Group, Level, answered_by, groups, members
from kveval.judge.rundata import Run
from kveval.judge.scores import own_score
from kveval.judge.stats import Score
from kveval.records import OUTCOMES, VariantRun
from kveval.report.charts import Chart, score_chart
from kveval.report.table import comparison_row

MOST_FLIPS_SHOWN = 250
# They differ between launches of the same engine, and say nothing about its answers.
_VOLATILE_FACTS = {"startup_seconds", "log_path"}
_CAPACITY_FACTS = {"kv_capacity_tokens", "kv_capacity_ratio"}


@dataclass(frozen=True, slots=True)
class Fact:
    value: Any
    differs: bool
    note: str | None = None


def answer(run: Run, judgement: Judgement) -> list[dict[str, Any]]:
    """One entry per candidate: headline, what a reader must know beside it, a row per length and one overall."""
    return [
        {
            "variant": run.manifest.variants[headline.variant],
            "headline": headline,
            "measured": any(comparison.difference.n for comparison in judgement.of(headline.variant, "overall")),
            "facts": run.manifest.variants[headline.variant].facts or {},
            "caveats": caveats(run.manifest.variants[headline.variant]),
            "rows": [
                comparison_row(comparison)
                for level in ("length", "overall")
                for comparison in judgement.of(headline.variant, level)
            ],
            "cells": [comparison_row(comparison) for comparison in judgement.of(headline.variant, "cell")],
            "families": [comparison_row(comparison) for comparison in judgement.of(headline.variant, "family")],
        }
        for headline in headlines(judgement)
    ]


def caveats(variant: VariantRun) -> list[str]:
    """What would mislead a reader who did not know it, in one sentence each."""
    found = []
    if variant.status != "complete":
        found.append(f"This variant is {variant.status}, not complete: what it lacks counts against it.")
    if (variant.facts or {}).get("storage") == "emulated":
        found.append(
            "Emulated: the values are rounded as the format rounds them, and stored as before. No memory is saved, and "
            "the kernel of a native cache is not tested."
        )
    return found + [finding.message for finding in variant.findings if finding.level != "info"]


def facts_table(run: Run) -> list[tuple[str, list[Fact]]]:
    """(fact, its value for every variant), the baseline's first; differences from it are marked."""
    variants = baseline_first(run)
    reference = variants[0].facts or {}
    keys = list(dict.fromkeys(key for variant in variants for key in variant.facts or {}))
    table = []
    for key in keys:
        row = []
        for variant in variants:
            facts = variant.facts or {}
            value = facts.get(key)
            differs = value is not None and key not in _VOLATILE_FACTS and value != reference.get(key)
            saves_nothing = key in _CAPACITY_FACTS and facts.get("storage") == "emulated"
            row.append(Fact(value, differs, "emulated: no memory saved" if saves_nothing else None))
        table.append((key, row))
    return table


def cost_table(run: Run) -> list[dict[str, Any]]:
    """Time and tokens of every variant; medians in milliseconds over the answered samples."""
    rows = []
    for variant in baseline_first(run):
        records, counters = run.records[variant.name], variant.counters
        prompt, cached = counters.get("prompt_tokens"), counters.get("prompt_tokens_cached")
        rows.append(
            {
                "variant": variant.name,
                "records": len(records),
                "asking_seconds": variant.asking_seconds or None,
                "ttft_ms": _median(records["ttft_ms"]),
                "itl_ms": _median(records["itl_ms"]),
                "prompt_tokens": prompt,
                "computed_tokens": counters.get("prompt_tokens_computed"),
                "cached_share": cached / prompt if prompt and cached is not None else None,
                "generation_tokens": counters.get("generation_tokens"),
                "preemptions": counters.get("preemptions"),
                "retried": int((records["attempts"] > 1).sum()) if len(records) else 0,
            }
        )
    return rows


def scores_table(run: Run, confidence: float) -> list[tuple[Group, dict[str, Score]]]:
    """(cell, length or overall; score by variant)."""
    return [
        (group, {name: own_score(run, name, group, confidence=confidence) for name in run.manifest.variants})
        for group in groups(run.samples)
        if group.level != "family"
    ]


def charts(run: Run, table: list[tuple[Group, dict[str, Score]]]) -> list[Chart]:
    """All tasks together, then each task; A/A runs are left out."""
    shown = [variant.name for variant in baseline_first(run) if variant.role != "aa" and len(run.records[variant.name])]
    styles = {name: index for index, name in enumerate(shown)}

    def chart(title: str, rows: list[tuple[Group, dict[str, Score]]]) -> Chart:
        series = {name: [(group.context_length or 0, scores[name]) for group, scores in rows] for name in shown}
        return score_chart(title, series, styles)

    tasks = list(dict.fromkeys(group.task for group, _ in table if group.task))
    by_task = [chart(task, [row for row in table if row[0].task == task]) for task in tasks]
    together = [chart("all tasks", [row for row in table if row[0].level == "length"])]
    return by_task if len(tasks) == 1 else together + by_task


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


def drift_table(run: Run, levels: tuple[Level, ...] = ("overall", "length")) -> list[dict[str, Any]]:
    """Drift of every variant but the baseline, by group, beside the A/A run's on the same samples."""
    aa = run.variant("aa", run.manifest.baseline)
    baseline = run.records[run.manifest.baseline]
    haystacks = run.samples["haystack_id"]
    noise = drift_positions(baseline, run.records[aa.name], run.samples.index) if aa else None
    rows = []
    for variant in run.manifest.variants.values():
        if variant.role in ("baseline", "aa"):
            continue
        positions = drift_positions(baseline, run.records[variant.name], run.samples.index)
        for group in groups(run.samples):
            if group.level not in levels:
                continue
            ids = members(run.samples, group).index
            drift = summarize(positions[positions["sample_id"].isin(ids)], haystacks)
            if drift is None:
                continue
            beside, ratio = _beside_noise(positions, noise, ids, haystacks)
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


def _beside_noise(
    positions: pd.DataFrame, noise: pd.DataFrame | None, ids: pd.Index, haystacks: pd.Series
) -> tuple[Drift | None, float | None]:
    """The A/A drift of the samples `ids`, and the ratio to it of the variant's on the samples it covers."""
    if noise is None:
        return None, None
    of_group = noise[noise["sample_id"].isin(ids)]
    covered = positions[positions["sample_id"].isin(of_group["sample_id"])]
    beside = summarize(of_group, haystacks)
    return beside, ratio_to_noise(summarize(covered, haystacks), beside)


def flips_section(run: Run) -> list[dict[str, Any]]:
    """Flipped samples of every variant but the baseline, the first `MOST_FLIPS_SHOWN` of each."""
    sections = []
    for variant in run.manifest.variants.values():
        if variant.role == "baseline":
            continue
        flipped = list(flipped_samples(run, variant))
        compared = len(answered_by(pair_variant(run, variant), "baseline", "candidate"))
        shown: list[FlippedSample] = flipped[:MOST_FLIPS_SHOWN]
        sections.append({"variant": variant, "shown": shown, "hidden": len(flipped) - len(shown), "compared": compared})
    return sections


def baseline_first(run: Run) -> list[VariantRun]:
    """Every variant of the run, in its order but for the baseline."""
    return sorted(run.manifest.variants.values(), key=lambda variant: variant.name != run.manifest.baseline)


def _median(values: pd.Series) -> float | None:
    known = pd.to_numeric(values, errors="coerce").dropna()
    return float(known.median()) if len(known) else None
