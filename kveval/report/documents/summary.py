"""What `kveval report --json` prints: one row per variant and context length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kveval.config.judge import Policy
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.own_score import kinds_of, method_of, own_score, temperature_of
from kveval.judge.comparison.scope import scopes
from kveval.judge.divergence.of_run import divergences
from kveval.judge.evidence.cold import ColdComparison, cold_comparisons
from kveval.judge.evidence.length_area import length_areas
from kveval.judge.evidence.measures import event_findings, measures
from kveval.judge.evidence.output_length import by_output_length, step_curves
from kveval.judge.run_data import RunData, load_run
from kveval.report.documents.rows import (
    comparison_part,
    comparison_row,
    length_area_row,
    measure_row,
    output_bin_row,
    variant_row,
)
from kveval.report.endpoints import asked_of_baseline
from kveval.report.sections.speculation.section import SpeculatingVariant, speculating_variants

SUMMARY_VERSION = 3
# The run directory's cold/ has the others.
_MOST_DIFFERENCES = 20


def summary(run_dir: Path, policy: Policy | None = None) -> dict[str, Any]:
    """Returns the run as a strict JSON document.

    Its keys are ``version, run_id, status, partial, baseline, policy, problems, headlines, variants, rows,
    speculation, prefix_cache, divergence, measures, steps, output_length, length_area`` and ``findings``. There
    is one row per variant and context length, and one overall (``context_length`` None). The baseline has one for each
    kind of score (``evidence``).
    Scores are in [0, 1], differences in [-1, 1] (candidate - baseline). None stands beside a reason.

    Raises:
        RunDirectoryError: `run_dir` is not a run directory, or it is broken.
    """
    run = load_run(run_dir)
    judgement, manifest = judge_run(run, policy), run.manifest
    confidence = judgement.policy.confidence
    found = measures(run, confidence=confidence)
    return {
        "version": SUMMARY_VERSION,
        "run_id": manifest.run_id,
        "status": manifest.status,
        "partial": manifest.status != "complete",
        "baseline": manifest.baseline,
        "policy": judgement.policy.model_dump(),
        "problems": [asdict(problem) for problem in judgement.problems],
        "headlines": [asdict(headline) for headline in headlines(judgement)],
        "variants": {name: variant_row(variant) for name, variant in manifest.variants.items()},
        "rows": [*_baseline_rows(run, judgement), *_rows(run, judgement)],
        "speculation": [_speculation(one) for one in speculating_variants(run, judgement)],
        "prefix_cache": [_cold(check) for check in cold_comparisons(run)],
        "divergence": [asdict(one) for one in divergences(run)],
        "measures": [measure_row(one) for one in found],
        "steps": [output_bin_row(one) for one in step_curves(run, confidence=confidence)],
        "output_length": [output_bin_row(one) for one in by_output_length(run, confidence=confidence)],
        "length_area": [length_area_row(one) for one in length_areas(run, confidence=confidence)],
        "findings": [
            one.model_dump() for one in event_findings(found, baseline=manifest.baseline, confidence=confidence)
        ],
    }


def _baseline_rows(run: RunData, judgement: Judgement) -> Iterator[dict[str, Any]]:
    rows = ((group, kind) for group in scopes(run.samples, "length", "overall") for kind in kinds_of(run))
    policy = judgement.policy
    for group, kind in rows:
        score = own_score(
            run, run.manifest.baseline, group, confidence=policy.confidence, kind=kind, advisory=policy.advisory
        )
        yield {
            "variant": run.manifest.baseline,
            "role": "baseline",
            "level": group.level,
            "context_length": group.context_length,
            "evidence": kind,
            "temperature": None if kind == "greedy" else temperature_of(run),
            "expected_method": None if kind == "greedy" else method_of(run),
            "asked": asked_of_baseline(run, judgement, group, kind, scored=score.n),
            "n": score.n,
            "haystacks": score.clusters,
            "score": score.mean,
            "score_low": score.low,
            "score_high": score.high,
        }


def _rows(run: RunData, judgement: Judgement) -> Iterator[dict[str, Any]]:
    for name, variant in run.manifest.variants.items():
        for comparison in judgement.of(name, "length", "overall"):
            yield {"role": variant.role, **comparison_row(comparison)}


def _speculation(one: SpeculatingVariant) -> dict[str, Any]:
    result = one.result
    return {
        "variant": result.variant,
        "method": result.method,
        "tokens": result.tokens,
        "drafts": asdict(result.drafts) if result.drafts else None,
        "partner": result.partner,
        "parting": asdict(result.parting) if result.parting else None,
        "rows": [
            {**comparison_row(row), "aa": comparison_part(aa, "n", "identical", "lost", "gained", "delta")}
            for row, aa in one.rows
        ],
    }


def _cold(check: ColdComparison) -> dict[str, Any]:
    return {
        **asdict(check),
        "finding": check.finding.model_dump() if check.finding else None,
        "differences": [asdict(difference) for difference in check.differences[:_MOST_DIFFERENCES]],
        "more_differences": max(len(check.differences) - _MOST_DIFFERENCES, 0),
    }
