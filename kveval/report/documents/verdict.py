"""``verdict.json``: the gate's decision and all it rests on, as one strict JSON document. See reports/README.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kveval import __version__
from kveval.errors import IncomparableError, InfrastructureError, KvevalError
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.gate.check import Check
from kveval.judge.gate.gate import Gate
from kveval.report.documents.rows import comparison_part, comparison_row, variant_row
from kveval.report.files.flips import flip_excerpts
from kveval.report.sections.drift.section import DriftRow, drift_rows

VERDICT_VERSION = 4


def verdict(gate: Gate) -> dict[str, Any]:
    """Returns the document. Shares and scores are in [0, 1], differences in [-1, 1] (candidate - baseline)."""
    manifest, blessed, noise = gate.run.manifest, gate.blessed, noise_floor(gate)
    return {
        "version": VERDICT_VERSION,
        "kveval_version": __version__,
        "verdict": gate.state,
        "exit_code": gate.exit_code,
        "reason": None,
        "run": {
            "path": str(gate.run.path),
            "run_id": manifest.run_id,
            "created": manifest.created,
            "status": manifest.status,
            "kveval_version": manifest.kveval_version,
            "baseline": manifest.baseline,
            "samples": len(gate.run.samples),
            "haystacks": int(gate.run.samples["haystack_id"].nunique()),
        },
        "blessed": {"path": str(blessed.path), "run_id": blessed.run.run_id, "created": blessed.run.created}
        if blessed
        else None,
        "policy": gate.policy.model_dump(),
        "problems": [asdict(problem) for problem in gate.judgement.problems],
        "checks": [_check(gate, check) for check in gate.checks],
        "notes": [note.model_dump() for note in gate.notes],
        "variants": {name: variant_row(variant) for name, variant in manifest.variants.items()},
        "noise": comparison_part(
            noise,
            "variant",
            "evidence",
            "n",
            "delta",
            "se",
            "low",
            "high",
            "lost",
            "gained",
            "identical",
            "greedy",
            "expected",
        ),
        "drift": [_drift(row) for row in drift_rows(gate.run, ("overall", "length", "cell"))],
    }


def error_word(error: KvevalError) -> str:
    """Returns the verdict when nothing could be judged: infrastructure, incomparable or usage."""
    if isinstance(error, InfrastructureError):
        return "infrastructure"
    return "incomparable" if isinstance(error, IncomparableError) else "usage"


def no_verdict(error: KvevalError, path: str) -> dict[str, Any]:
    """Returns the document of a gate that could not judge: the same keys, and the reason."""
    return {
        "version": VERDICT_VERSION,
        "kveval_version": __version__,
        "verdict": error_word(error),
        "exit_code": error.exit_code,
        "reason": str(error),
        "run": {"path": path},
        "blessed": None,
        "policy": None,
        "problems": [],
        "checks": [],
        "notes": [],
        "variants": {},
        "noise": None,
        "drift": [],
    }


def _check(gate: Gate, check: Check) -> dict[str, Any]:
    attribution = check.overall.attribution if check.overall else None
    variant = gate.run.manifest.variants.get(check.variant)
    return {
        "kind": check.kind,
        "variant": check.variant,
        "against": check.against,
        "verdict": check.state,
        "blocks": check.state != "pass" and check.blocks,
        "reason_code": check.reason_code,
        "reason": check.reason,
        "emulated": bool(variant and variant.facts.is_emulated),
        "loss_comes_from": attribution.blames() if attribution else None,
        "rows": [_row(comparison) for comparison in check.comparisons],
        "flips": [asdict(flip) for flip in flip_excerpts(gate.run, check)],
    }


def _row(comparison: Comparison) -> dict[str, Any]:
    return {"against": comparison.against, **comparison_row(comparison)}


def _drift(row: DriftRow) -> dict[str, Any]:
    return {
        "variant": row.variant,
        "level": row.scope.level,
        "task": row.scope.task,
        "context_length": row.scope.context_length,
        **asdict(row.drift),
        "aa": asdict(row.aa) if row.aa else None,
        "ratio": row.ratio,
    }


def noise_floor(gate: Gate) -> Comparison | None:
    """Returns the baseline against its second run, overall. None without a second run."""
    return next(iter(gate.judgement.of(gate.run.aa.name, "overall")), None) if gate.run.aa else None
