"""Parts that several documents have: one comparison, one variant."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.endpoint import Attribution, Endpoint
from kveval.judge.evidence.length_area import LengthArea
from kveval.judge.evidence.measures import Measure
from kveval.judge.evidence.output_length import OutputBin
from kveval.judge.statistics.difference import Difference
from kveval.report.endpoints import contradiction
from kveval.run.manifest import VariantRun


def comparison_row(comparison: Comparison) -> dict[str, Any]:
    """Returns one comparison as a flat row. Scores are in [0, 1], differences in [-1, 1] (candidate - baseline).

    Scores and differences of the row are of the kind that ``evidence`` names, which the verdict rests on. ``greedy``
    and ``expected`` have all kinds; ``greedy_rest`` has the greedy score of the samples without an expected one. Flips,
    outcomes and noise are those of greedy answers.
    """
    difference, verdict, noise = comparison.difference, comparison.verdict, comparison.noise
    return {
        "variant": comparison.variant,
        "level": comparison.scope.level,
        "family": comparison.scope.family,
        "task": comparison.scope.task,
        "context_length": comparison.scope.context_length,
        "evidence": comparison.shown.kind,
        "temperature": comparison.shown.temperature,
        "expected_method": comparison.shown.method,
        "asked": comparison.asked,
        "unscored": comparison.unscored,
        "tier": "advisory" if comparison.is_advisory else "blocking",
        "n": difference.n,
        "haystacks": difference.clusters,
        "baseline_score": comparison.baseline_score.mean,
        "score": comparison.candidate_score.mean,
        "score_low": comparison.candidate_score.low,
        "score_high": comparison.candidate_score.high,
        "delta": difference.delta,
        "se": difference.se,
        "low": difference.low,
        "high": difference.high,
        "p": difference.p,
        "p_beyond_margin": difference.p_beyond,
        "method": difference.method,
        "no_interval_because": difference.reason,
        "lost": comparison.flips.lost,
        "gained": comparison.flips.gained,
        "mcnemar_p": comparison.flips.p,
        "identical": comparison.identical,
        "outcomes": comparison.outcomes,
        "insensitive_cells": list(comparison.insensitive_cells),
        "noise": asdict(noise) if noise else None,
        "aa_difference": _difference(comparison.shown.aa),
        "attribution": _attribution(comparison.attribution),
        "greedy": _endpoint(comparison.greedy),
        "expected": [_endpoint(one) for one in comparison.expected],
        "contradiction": contradiction(comparison),
        "greedy_rest": _endpoint(comparison.rest) if comparison.rest else None,
        "verdict": verdict.word if verdict else None,
        "reason_code": verdict.reason_code if verdict else None,
        "reason": verdict.reason if verdict else None,
        "margin": verdict.margin if verdict else None,
        "p_holm": verdict.p_holm if verdict else None,
        "more_samples": asdict(verdict.more_samples) if verdict and verdict.more_samples else None,
    }


def comparison_part(comparison: Comparison | None, *keys: str) -> dict[str, Any] | None:
    """Returns these keys of `comparison_row`. None without a comparison."""
    row = comparison_row(comparison) if comparison else {}
    return {key: row[key] for key in keys} if comparison else None


def _endpoint(one: Endpoint) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "temperature": one.temperature,
        "expected_method": one.method,
        "asked": one.asked,
        **(_difference(one.difference) or {}),
        "baseline_score": one.baseline_score.mean,
        "score": one.candidate_score.mean,
        "method": one.difference.method,
        "no_interval_because": one.difference.reason,
        "insensitive_cells": list(one.insensitive_cells),
        "aa_difference": _difference(one.aa),
        "attribution": _attribution(one.attribution),
        "parts": {"values": _difference(one.parts.values), "format": _difference(one.parts.format)}
        if one.parts
        else None,
    }


def _difference(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    keys = {"n": found.n, "haystacks": found.clusters, "delta": found.delta, "se": found.se}
    return {**keys, "low": found.low, "high": found.high, "p": found.p}


def measure_row(one: Measure) -> dict[str, Any]:
    """Returns a measure beside the score as one flat row: ``name``, ``kind`` (event or metric), where, and numbers."""
    return {
        "variant": one.variant,
        "name": one.name,
        "kind": "event" if one.is_event else "metric",
        "level": one.scope.level,
        "family": one.scope.family,
        "task": one.scope.task,
        "context_length": one.scope.context_length,
        "count": one.count,
        **{key: getattr(one.own, key) for key in ("n", "mean", "low", "high")},
        "baseline_mean": one.baseline.mean if one.baseline else None,
        "difference": _difference(one.difference),
    }


def output_bin_row(one: OutputBin) -> dict[str, Any]:
    """Returns a part of the outputs as one flat row: steps or output tokens from ``first`` to ``last``."""
    return {
        "variant": one.variant,
        "task": one.scope.task,
        "context_length": one.scope.context_length,
        "first": one.first,
        "last": one.last,
        "baseline_tokens": one.baseline_tokens,
        **{key: getattr(one.own, key) for key in ("n", "mean", "low", "high")},
        "baseline_mean": one.baseline.mean,
        "difference": _difference(one.difference),
    }


def length_area_row(one: LengthArea) -> dict[str, Any]:
    """Returns the mean score over the context lengths of a task as one flat row."""
    return {
        "variant": one.variant,
        "task": one.task,
        "context_lengths": list(one.context_lengths),
        "baseline_area": one.baseline,
        "area": one.own,
        "delta": one.delta,
        "low": one.low,
        "high": one.high,
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


def variant_row(variant: VariantRun) -> dict[str, Any]:
    """Returns one variant: its role, its status and the facts a reader needs beside its scores."""
    facts = variant.facts
    return {
        "role": variant.role,
        "of": variant.of,
        "status": variant.status,
        "reason": variant.reason,
        "storage": facts.storage,
        "emulation": facts.emulation,
        "effective_cache_dtype": facts.effective_cache_dtype,
        "attention_backend": facts.attention_backend,
        "scales": facts.scales,
        "kv_capacity_tokens": facts.kv_capacity_tokens,
        "kv_capacity_ratio": facts.kv_capacity_ratio,
        "declared": facts.declared,
        "reuse": variant.reuse.model_dump() if variant.reuse else None,
        "findings": [finding.model_dump() for finding in variant.findings],
    }
