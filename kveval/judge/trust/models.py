"""Tells from their facts whether two servers run different models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kveval.judge.run_data import RunData
from kveval.judge.trust.differences import has_own_model
from kveval.judge.trust.problem import Problem
from kveval.run.facts import Facts
from kveval.run.manifest import VariantRun


def other_model(run: RunData, variant: VariantRun) -> Problem | None:
    """Returns the problem of a variant whose server runs another model than the baseline's.

    The configuration can say that it does: with a `model` of the variant, or by accepting the finding.
    """
    if has_own_model(run, variant.name) or _is_accepted(run, variant):
        return None
    differing = list(_differing(variant.facts, run.baseline.facts))
    if not differing:
        return None
    message = (
        f"{variant.name}: its server does not run the baseline's model: {'; '.join(differing)}. Two models cannot be "
        "compared; attach to the same one, or give the variant a model of its own"
    )
    return Problem(variant.name, "other_model", message)


def _is_accepted(run: RunData, variant: VariantRun) -> bool:
    accepted = run.manifest.config.get("accept_findings") or ()
    return any(one.level == "error" and one.code.startswith("other_") and one.code in accepted
               for one in variant.findings)  # fmt: skip


def _differing(ours: Facts, theirs: Facts) -> Iterator[str]:
    first, second = _served(ours), _served(theirs)
    pairs = {
        "root": (_root(first), _root(second)),
        "model in its answers": (_answering(ours, first), _answering(theirs, second)),
    }
    for what, (mine, before) in pairs.items():
        if mine is not None and before is not None and mine != before:
            yield f"{what} {mine}, the baseline's is {before}"


def _served(facts: Facts) -> Mapping[str, Any]:
    """Returns the model's entry in /v1/models. Empty if there is none."""
    try:
        served = json.loads(facts.served_model or "{}")
    except ValueError:
        return {}
    return served if isinstance(served, Mapping) else {}


def _root(served: Mapping[str, Any]) -> str | None:
    """Returns what the server loaded. A root that repeats a served name says nothing about it."""
    root = served.get("root")
    if not isinstance(root, str) or (root == served.get("id") and "/" not in root):
        return None
    return root


def _answering(facts: Facts, served: Mapping[str, Any]) -> str | None:
    """Returns the name in the answers, or "its own name" where it is one of the names in /v1/models."""
    if facts.answers_as is None or not served:
        return None
    return "its own name" if facts.answers_as in (served.get("id"), served.get("root")) else facts.answers_as
