"""What `kveval recommend --json` prints; see reports/README.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kveval import __version__
from kveval.judge.comparison.comparison import at_levels
from kveval.judge.recommend.recommend import Candidate, Recommendation
from kveval.judge.recommend.serve_command import ServeCommand
from kveval.report.documents.rows import comparison_row, variant_row

RECOMMENDATION_VERSION = 3
_OF_SCORES = (
    "evidence", "temperature", "expected_method", "score", "baseline_score", "delta", "se", "low", "high", "n",
    "haystacks", "greedy", "expected", "greedy_rest",
)  # fmt: skip
_OF_VARIANT = (
    "status", "storage", "emulation", "effective_cache_dtype", "declared", "kv_capacity_tokens", "kv_capacity_ratio",
)  # fmt: skip


def recommendation_document(made: Recommendation) -> dict[str, Any]:
    """Returns the recommendation as a strict JSON document."""
    run, chosen = made.gate.run, made.chosen
    manifest = run.manifest
    return {
        "version": RECOMMENDATION_VERSION,
        "kveval_version": __version__,
        "exit_code": made.exit_code,
        "recommended": chosen.variant.name if chosen else None,
        "reason": made.reason,
        "run": {
            "path": str(run.path),
            "run_id": manifest.run_id,
            "created": manifest.created,
            "status": manifest.status,
            "kveval_version": manifest.kveval_version,
        },
        "baseline": manifest.baseline,
        "policy": made.gate.policy.model_dump(),
        "serve": _command(made.serve) if made.serve else None,
        "rollback": _command(made.rollback) if made.rollback else None,
        "memory": asdict(chosen.memory) if chosen else None,
        "context_limits": [asdict(limit) for limit in made.limits],
        "warnings": list(made.warnings),
        "candidates": [_candidate(one, one is chosen) for one in made.candidates],
    }


def _command(serving: ServeCommand) -> dict[str, Any]:
    return {
        "environment": dict(serving.environment),
        "command": serving.command,
        "flags": serving.flags,
        "shell": serving.shell(),
    }


def _candidate(candidate: Candidate, recommended: bool) -> dict[str, Any]:
    rows = at_levels(candidate.check.comparisons, "length", "overall")
    scores = comparison_row(rows[-1])
    variant = variant_row(candidate.variant)
    return {
        "variant": candidate.variant.name,
        "recommended": recommended,
        "verdict": candidate.state,
        "reason": candidate.check.reason,
        "obstacle": candidate.obstacle,
        "native_equivalent": candidate.native,
        "held_tokens": candidate.held_tokens,
        "settling": asdict(candidate.settling) if candidate.settling else None,
        "freed_share": candidate.memory.freed_share,
        **{key: scores[key] for key in _OF_SCORES},
        **{key: variant[key] for key in _OF_VARIANT},
    }
