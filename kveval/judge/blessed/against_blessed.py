"""Compares a run with an earlier, blessed one: what must be equal, what changed, and the pairs to judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kveval.config.judge import Policy
from kveval.errors import IncomparableError
from kveval.judge.blessed.bless import Blessed, comparable_spec, digested, stable_facts
from kveval.judge.comparison.pairing import VariantPair, pair
from kveval.judge.questions import differing_questions, questions_of
from kveval.judge.run_data import RunData, incomplete_reason
from kveval.run.facts import Finding


def check_comparable(run: RunData, blessed: Blessed) -> None:
    """Checks that `run` and the blessed run asked the same of the same model.

    Raises:
        IncomparableError: something asked differs, or `run` lacks a blessed variant. The message names it.
    """

    def refuse(what: str) -> IncomparableError:
        return IncomparableError(f"{run.path} and {blessed.path}: {what}; use a run with the same, or bless a new one")

    ours, theirs = run.manifest.inputs, blessed.run.inputs
    for name in sorted(ours.keys() | theirs.keys()):
        # A file that only one run has matters only if it belongs to the model. Other tasks show as other samples.
        both = name in ours and name in theirs
        if ours.get(name) != theirs.get(name) and (both or name.startswith("model/")):
            raise refuse(f"{_kind(name)} differs ({name})")
    differing = differing_questions(blessed.questions, questions_of(run))
    if differing:
        raise refuse(differing)
    for name in blessed.variants:
        if name not in run.manifest.variants:
            raise refuse(f"variant {name!r} was blessed and not asked again")


def pairs_with_blessed(run: RunData, blessed: Blessed) -> list[VariantPair]:
    """Pairs every variant of the blessed run with the same variant of `run`."""
    # No variant's name has a space.
    label = f"blessed run {blessed.run.run_id[:12]}"
    return [
        VariantPair(
            name, label,
            pair(run.samples, {"baseline": blessed.records[name], "candidate": digested(run.records[name])}),
            obstacle=incomplete_reason(run.manifest.variants[name]),
        )
        for name in blessed.variants
    ]  # fmt: skip


def changes(run: RunData, blessed: Blessed, policy: Policy) -> Iterator[Finding]:
    """Yields what changed since the blessed run and still allows a comparison: an engine upgrade, a looser policy."""
    for name, before in blessed.variants.items():
        after = run.manifest.variants[name]
        changed = [
            *_changed(before.spec, comparable_spec(after.spec)),
            *_changed(stable_facts(before.facts), stable_facts(after.facts)),
        ]
        if changed:
            what = "; ".join(dict.fromkeys(changed))
            yield Finding.warning("changed_since_blessed", f"{name} has changed since it was blessed: {what}")
    for name, variant in run.manifest.variants.items():
        if variant.role in ("baseline", "candidate") and name not in blessed.variants:
            yield Finding.warning("not_blessed", f"{name} was not in the blessed run, so it is not compared with it")
    then, now = blessed.run.kveval_version, run.manifest.kveval_version
    if then != now:
        yield Finding.warning("kveval_changed", f"kveval was {then} when the run was blessed and is {now}")
    differing = "; ".join(_changed(blessed.policy.model_dump(), policy.model_dump()))
    if differing:
        yield Finding.warning("policy_changed", f"the policy has changed since the run was blessed: {differing}")


def _changed(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{key} was {then.get(key)!r} and is {now.get(key)!r}"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
    ]


def _kind(name: str) -> str:
    if name.startswith("model"):
        return "the model"
    return "a task or its scorer" if name.startswith("task/") else f"the {name}"
