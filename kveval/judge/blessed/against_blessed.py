"""A run held against an earlier, blessed one: what must be equal, what has changed, and the pairs to judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kveval.config.judge import Policy
from kveval.errors import IncomparableError
from kveval.judge.blessed.bless import Blessed, comparable_spec, digested, prompts_sha256, stable_facts
from kveval.judge.comparison.pairing import pair
from kveval.judge.comparison.variant_pair import VariantPair, incomplete_reason
from kveval.judge.run_data import RunData
from kveval.run.findings import Finding


def check_comparable(run: RunData, blessed: Blessed) -> None:
    """
    Raises:
        IncomparableError: another model, tokenizer, task, sample, prompt or sampling setting, or a blessed variant that
            `run` has not; the message names it.
    """

    def refuse(what: str) -> IncomparableError:
        return IncomparableError(f"{run.path} and {blessed.path}: {what}; allowed: the same, or a newly blessed run")

    ours, theirs = run.manifest.inputs, blessed.run.inputs
    for name in sorted(ours.keys() | theirs.keys()):
        # Of files that only one run has, only those of the model itself matter: other tasks are other samples.
        both = name in ours and name in theirs
        if ours.get(name) != theirs.get(name) and (both or name.startswith("model/")):
            raise refuse(f"{_kind(name)} differs ({name})")
    tasks = set(run.samples["task"]) ^ set(blessed.samples["task"])
    if tasks:
        raise refuse(f"only one of them asked task {min(tasks)!r}")
    alone = run.samples.index.symmetric_difference(blessed.samples.index)
    if len(alone):
        of_either = {**blessed.samples["task"].to_dict(), **run.samples["task"].to_dict()}
        names = ", ".join(sorted({of_either[sample_id] for sample_id in alone}))
        raise refuse(
            f"{len(alone)} samples were asked in only one of them (tasks {names}); other prompts, references, seeds or "
            "lengths make other samples"
        )
    if prompts_sha256(run.samples) != blessed.prompts_sha256:
        raise refuse("the prompts of the same samples differ")
    for key in sorted(run.manifest.sampling.keys() | blessed.run.sampling.keys()):
        now, then = run.manifest.sampling.get(key), blessed.run.sampling.get(key)
        if now != then:
            raise refuse(f"sampling setting {key!r} was {then!r} and is {now!r}")
    for name in blessed.variants:
        if name not in run.manifest.variants:
            raise refuse(f"variant {name!r} was blessed and not asked again")


def pairs_with_blessed(run: RunData, blessed: Blessed) -> list[VariantPair]:
    """Every blessed variant, then against now."""
    label = against_label(blessed)
    return [
        VariantPair(
            name, label,
            pair(run.samples, {"baseline": blessed.records[name], "candidate": digested(run.records[name])}),
            obstacle=incomplete_reason(run.manifest.variants[name]),
        )
        for name in blessed.variants
    ]  # fmt: skip


def against_label(blessed: Blessed) -> str:
    # With a space in it, which no variant's name has.
    return f"blessed run {blessed.run.run_id[:12]}"


def changes(run: RunData, blessed: Blessed, policy: Policy) -> Iterator[Finding]:
    """What differs from the blessed run without forbidding a comparison: an engine upgrade, a looser policy."""
    for name, before in blessed.variants.items():
        now = run.manifest.variants[name]
        then_facts, now_facts = stable_facts(before.facts), stable_facts(now.facts)
        changed = [*_changed(before.spec, comparable_spec(now.spec)), *_changed(then_facts, now_facts)]
        if changed:
            yield Finding(
                level="warning",
                code="changed_since_blessed",
                message=f"{name} is not what was blessed: {'; '.join(dict.fromkeys(changed))}",
            )
    for name, variant in run.manifest.variants.items():
        if variant.role in ("baseline", "candidate") and name not in blessed.variants:
            yield Finding(
                level="warning",
                code="not_blessed",
                message=f"{name} was not in the blessed run: no comparison over time",
            )
    if run.manifest.kveval_version != blessed.run.kveval_version:
        yield Finding(
            level="warning",
            code="kveval_changed",
            message=f"kveval was {blessed.run.kveval_version} when the run was blessed and is "
            f"{run.manifest.kveval_version}",
        )
    differing = _changed(blessed.policy.model_dump(), policy.model_dump())
    if differing:
        yield Finding(
            level="warning",
            code="policy_changed",
            message=f"the policy is not the one the run was blessed under: {'; '.join(differing)}",
        )


def _changed(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{key} was {then.get(key)!r} and is {now.get(key)!r}"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
    ]


def _kind(name: str) -> str:
    for start, kind in (("model", "the model"), ("task/", "a task or its scorer")):
        if name.startswith(start):
            return kind
    return f"the {name}"
