"""``verdict.json``: the gate's decision and all it rests on, as one strict JSON document. See reports/README.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from kveval import __version__
from kveval.errors import IncomparableError, InfrastructureError, KvevalError
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.pairing import answered_by
from kveval.judge.gate.check import Check
from kveval.judge.gate.gate import Gate
from kveval.judge.run_data import RunData
from kveval.report.rows import comparison_row
from kveval.report.sections.drift.section import drift_table
from kveval.report.terminal.summary import describe_variant
from kveval.report.text import shortened

VERDICT_VERSION = 2
MOST_FLIPS = 20
EXCERPT_CHARACTERS = 160


def verdict(gate: Gate) -> dict[str, Any]:
    """
    Shares and scores are in [0, 1], differences in [-1, 1] (candidate - baseline); None stands beside a reason.
    """
    manifest, blessed = gate.run.manifest, gate.blessed
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
        "checks": [_check(gate.run, check) for check in gate.checks],
        "notes": [note.model_dump() for note in gate.notes],
        "variants": {name: describe_variant(variant) for name, variant in manifest.variants.items()},
        "noise": _noise(gate),
        "drift": drift_table(gate.run, ("overall", "length", "cell")),
    }


def no_verdict(error: KvevalError, path: str) -> dict[str, Any]:
    """The document of a gate that could not judge: the same keys, nothing in them but the reason."""
    word = "incomparable" if isinstance(error, IncomparableError) else "usage"
    return {
        "version": VERDICT_VERSION,
        "kveval_version": __version__,
        "verdict": "infrastructure" if isinstance(error, InfrastructureError) else word,
        "exit_code": error.exit_code,
        "reason": str(error),
        "run": {"path": path},
        "blessed": None,
        "policy": None,
        "checks": [],
        "notes": [],
        "variants": {},
        "noise": None,
        "drift": [],
    }


def _check(run: RunData, check: Check) -> dict[str, Any]:
    variant = run.manifest.variants.get(check.variant)
    overall = next((row for row in check.comparisons if row.scope.level == "overall"), None)
    attribution = overall.attribution if overall else None
    return {
        "kind": check.kind,
        "variant": check.variant,
        "against": check.against,
        "verdict": check.state,
        "blocks": check.state != "pass" and check.blocks,
        "reason": check.reason,
        "emulated": bool(variant and variant.facts.is_emulated),
        "loss_comes_from": attribution.blames() if attribution else None,
        "rows": [_row(comparison) for comparison in check.comparisons],
        "flips": list(_flips(run, check)),
    }


def _row(comparison: Comparison) -> dict[str, Any]:
    margin = comparison.verdict.margin if comparison.verdict else None
    return {"against": comparison.against, "margin": margin, **comparison_row(comparison)}


def _flips(run: RunData, check: Check) -> Iterator[dict[str, Any]]:
    """The first flips: losses before gains, in the order of the worst cells."""
    if check.pair is None:
        return
    pairs = answered_by(check.pair.table, "baseline", "candidate")
    flipped = pairs[pairs["baseline_correct"] != pairs["candidate_correct"]]
    delta = {
        (row.scope.task, row.scope.context_length): row.difference.delta or 0.0
        for row in check.comparisons
        if row.scope.level == "cell"
    }
    places = zip(flipped["task"], flipped["context_length"], strict=True)
    order = pd.DataFrame(
        {"gain": flipped["candidate_correct"].to_numpy(), "cell": [delta[place] for place in places]},
        index=flipped.index,
    ).sort_values(["gain", "cell"], kind="stable")
    for sample_id in order.index[:MOST_FLIPS]:
        row = flipped.loc[sample_id]
        yield {
            "sample_id": sample_id,
            "direction": "lost" if row["baseline_correct"] else "gained",
            "task": row["task"],
            "context_length": int(row["context_length"]),
            "depth_percent": None if pd.isna(row["depth_percent"]) else float(row["depth_percent"]),
            "question": _excerpt(row["doc"].get("question")),
            "expected": [_excerpt(answer) for answer in row["doc"].get("answers", ())],
            "before_outcome": row["baseline_outcome"],
            "after_outcome": row["candidate_outcome"],
            # A blessed run keeps no outputs.
            "before": _excerpt(_output(run, check.against, sample_id))
            if check.against and check.against in run.records
            else None,
            "after": _excerpt(_output(run, check.variant, sample_id)),
            "noise_too": bool(row["aa_correct"] != row["baseline_correct"]) if row.get("aa_answered", False) else None,
        }


def _output(run: RunData, variant: str, sample_id: Any) -> str:
    return str(run.records[variant].at[sample_id, "output"])


def _excerpt(text: Any) -> str | None:
    if text is None:
        return None
    shown, left_out = shortened(str(text), EXCERPT_CHARACTERS)
    return f"{shown} … {left_out} more characters" if left_out else shown


def _noise(gate: Gate) -> dict[str, Any] | None:
    """The baseline against its second run, overall."""
    aa = gate.run.variant("aa", gate.run.manifest.baseline)
    for comparison in gate.judgement.of(aa.name, "overall") if aa else ():
        difference = comparison.difference
        return {
            "variant": comparison.variant,
            "n": difference.n,
            "delta": difference.delta,
            "low": difference.low,
            "high": difference.high,
            "lost": comparison.flips.lost,
            "gained": comparison.flips.gained,
            "identical": comparison.identical,
        }
    return None
