"""One comparison as a flat row, and in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kveval.judge.comparison.comparison import Attribution, Comparison
from kveval.judge.run_data import RunData
from kveval.run.manifest import VariantRun


def comparison_row(comparison: Comparison) -> dict[str, Any]:
    """One comparison, flat."""
    difference, verdict, noise = comparison.difference, comparison.verdict, comparison.noise
    return {
        "variant": comparison.variant,
        "level": comparison.scope.level,
        "family": comparison.scope.family,
        "task": comparison.scope.task,
        "context_length": comparison.scope.context_length,
        "asked": comparison.asked,
        "unscored": comparison.unscored,
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
        "lost": comparison.flips.lost,
        "gained": comparison.flips.gained,
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
    if attribution is None or not attribution.total.n:
        return None
    parts = {"total": attribution.total, "format": attribution.format, "kernel": attribution.kernel}
    return {
        "control": attribution.control,
        "n": attribution.total.n,
        **{name: {"delta": part.delta, "low": part.low, "high": part.high} for name, part in parts.items()},
    }


def attribution_label(parts: dict[str, Any]) -> str:
    """How a difference divides into format and kernel, in one sentence."""
    return (
        f"{difference_label(parts['total'])} points = format {difference_label(parts['format'])} + "
        f"kernel {difference_label(parts['kernel'])} ({parts['n']} samples, control {parts['control']})"
    )


def difference_label(difference: dict[str, Any]) -> str:
    """'-5.7 [-9.2, -2.2]' in percentage points."""
    if difference["delta"] is None:
        return ""
    delta = f"{100 * difference['delta']:+.1f}"
    if difference["low"] is None:
        return f"{delta} [no interval]"
    return f"{delta} [{100 * difference['low']:+.1f}, {100 * difference['high']:+.1f}]"


def baseline_first(run: RunData) -> list[VariantRun]:
    """Every variant of the run, in its order but for the baseline."""
    return sorted(run.manifest.variants.values(), key=lambda variant: variant.name != run.manifest.baseline)
