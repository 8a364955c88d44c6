"""Judges whether two servers ran the same model, also in runs that were measured without asking."""

from __future__ import annotations

from kveval.judge.run_data import RunData
from kveval.judge.trust.problem import Problem
from kveval.run.manifest import VariantRun
from kveval.run.same_model import model_findings


def other_model(run: RunData, variant: VariantRun) -> Problem | None:
    """Returns the problem of a variant that was measured although its server runs another model than the baseline's.

    The configuration can say that it does: with a `model` of the variant, or by accepting the finding.
    """
    if run.records[variant.name].empty:
        return None
    endpoint = variant.spec.get("endpoint") or {}
    findings = model_findings(
        variant.facts,
        run.baseline.facts,
        is_same_model=not run.has_own_model(variant),
        engine_args=variant.spec.get("engine_args") or {},
        declared_max_model_len=(endpoint.get("declared") or {}).get("max_model_len"),
    )
    accepted = run.manifest.config.get("accept_findings") or ()
    messages = [finding.message for finding in findings if finding.code not in accepted]
    if not messages:
        return None
    return Problem(variant.name, "other_model", f"{variant.name}: {'; '.join(dict.fromkeys(messages))}")
