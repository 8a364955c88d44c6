"""The run in the terminal, and as a plain document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kveval.judge.diff import Attribution, Comparison, Judgement, judge_run, obstacle
from kveval.judge.pairing import groups, members
from kveval.judge.rundata import Run, load_run
from kveval.judge.stats import Difference, mean_score
from kveval.judge.verdicts import Policy, points
from kveval.records import VariantRun
from kveval.report.text import visible

SUMMARY_VERSION = 1
_STYLES = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold yellow"}


def summary(run_dir: Path, policy: Policy | None = None) -> dict[str, Any]:
    """The run as a strict JSON document: ``{version, run_id, status, partial, baseline, policy, headlines, variants,
    rows}``; one row per variant and context length, and one overall (``context_length`` None).

    Scores are in [0, 1], differences in [-1, 1] (candidate - baseline); None stands beside a reason.

    Raises:
        RunDirectoryError: not a run directory, or a broken one.
    """
    run = load_run(run_dir)
    return summarize(run, judge_run(run, policy))


def summary_table(run_dir: Path, policy: Policy | None = None) -> RenderableType:
    """`summary` for people: a table, then the reason behind each verdict.

    Raises:
        RunDirectoryError: not a run directory, or a broken one.
    """
    run = load_run(run_dir)
    return render(summarize(run, judge_run(run, policy)))


def summarize(run: Run, judgement: Judgement) -> dict[str, Any]:
    manifest = run.manifest
    return {
        "version": SUMMARY_VERSION,
        "run_id": manifest.run_id,
        "status": manifest.status,
        "partial": manifest.status != "complete",
        "baseline": manifest.baseline,
        "policy": asdict(judgement.policy),
        "headlines": [asdict(headline) for headline in judgement.headlines],
        "variants": {name: _variant(variant) for name, variant in manifest.variants.items()},
        "rows": [*_baseline_rows(run, judgement.policy), *_rows(run, judgement)],
    }


def _variant(variant: VariantRun) -> dict[str, Any]:
    facts = variant.facts or {}
    return {
        "role": variant.role,
        "of": variant.of,
        "status": variant.status,
        "reason": variant.reason,
        "storage": facts.get("storage"),
        "emulation": facts.get("emulation"),
        "effective_cache_dtype": facts.get("effective_cache_dtype"),
        "attention_backend": facts.get("attention_backend"),
        "scales": facts.get("scales"),
        "kv_capacity_tokens": facts.get("kv_capacity_tokens"),
        "kv_capacity_ratio": facts.get("kv_capacity_ratio"),
        "findings": [finding.model_dump() for finding in variant.findings],
    }


def _baseline_rows(run: Run, policy: Policy) -> Iterator[dict[str, Any]]:
    records = run.records[run.manifest.baseline]
    answered = records[records["outcome"] != "engine_error"]
    for group in groups(run.samples):
        if group.level not in ("overall", "length"):
            continue
        asked = members(run.samples, group)
        of_group = answered.loc[answered.index.intersection(asked.index)]
        score = mean_score(of_group["score"], asked.loc[of_group.index, "haystack_id"], confidence=policy.confidence)
        yield {
            "variant": run.manifest.baseline,
            "role": "baseline",
            "context_length": group.context_length,
            "asked": len(asked),
            "n": score.n,
            "haystacks": score.clusters,
            "score": score.mean,
            "score_low": score.low,
            "score_high": score.high,
        }


def _rows(run: Run, judgement: Judgement) -> Iterator[dict[str, Any]]:
    for name, variant in run.manifest.variants.items():
        for level in ("length", "overall"):
            for comparison in judgement.of(name, level):  # type: ignore[arg-type]
                yield {"role": variant.role, **comparison_row(comparison)}


def comparison_row(comparison: Comparison) -> dict[str, Any]:
    """One comparison, flat."""
    difference, verdict, noise = comparison.difference, comparison.verdict, comparison.noise
    return {
        "variant": comparison.variant,
        "level": comparison.group.level,
        "family": comparison.group.family,
        "task": comparison.group.task,
        "context_length": comparison.group.context_length,
        "asked": comparison.asked,
        "n": difference.n,
        "haystacks": difference.clusters,
        "baseline_score": comparison.baseline_score.mean,
        "score": comparison.candidate_score.mean,
        "score_low": comparison.candidate_score.low,
        "score_high": comparison.candidate_score.high,
        "delta": difference.delta,
        "low": difference.low,
        "high": difference.high,
        "p": difference.p,
        "method": difference.method,
        "no_interval_because": difference.reason,
        "flips_down": comparison.flips.down,
        "flips_up": comparison.flips.up,
        "mcnemar_p": comparison.flips.p,
        "identical": comparison.identical,
        "outcomes": comparison.outcomes,
        "insensitive_cells": list(comparison.insensitive_cells),
        "noise": asdict(noise) if noise else None,
        "attribution": _attribution(comparison.attribution),
        "verdict": verdict.word if verdict else None,
        "reason": verdict.reason if verdict else None,
        "p_holm": verdict.p_holm if verdict else None,
        "more_samples": verdict.more_samples if verdict else None,
    }


def _attribution(attribution: Attribution | None) -> dict[str, Any] | None:
    if attribution is None:
        return None
    parts = {"total": attribution.total, "format": attribution.format, "kernel": attribution.kernel}
    return {
        "twin": attribution.twin,
        "n": attribution.total.n,
        **{name: {"delta": part.delta, "low": part.low, "high": part.high} for name, part in parts.items()},
    }


def storage_label(variant: dict[str, Any]) -> str:
    """native or emulated, in words that fit a column."""
    storage = variant["storage"] or "unknown"
    return f"{storage} {variant['emulation'] or ''}".strip() if storage == "emulated" else storage


def capacity_label(variant: dict[str, Any]) -> str:
    """KV capacity against the baseline's; of an emulated cache, that it saves nothing."""
    if variant["storage"] == "emulated":
        return "none saved (emulated)"
    ratio = variant["kv_capacity_ratio"]
    return f"x{ratio:.2f}" if ratio is not None else "unknown"
