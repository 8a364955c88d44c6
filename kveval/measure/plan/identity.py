"""What makes a run the same run: its manifest when new, and the comparison that `--resume` must pass."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kveval
from kveval.engines.speculation import partner_of
from kveval.engines.variants import ResolvedVariant
from kveval.errors import ResumeError
from kveval.measure import provenance
from kveval.measure.plan.plan import Plan, hash_inputs
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.samples import ids_sha256


def new_manifest(plan: Plan) -> Manifest:
    config = plan.config
    return Manifest(
        kveval_version=kveval.__version__,
        run_id=uuid.uuid4().hex,
        created=provenance.now(),
        config=config.model_dump(mode="json"),
        inputs=hash_inputs(plan),
        seeds={"haystacks": config.seed, "engine": 0},
        sampling=_sampling(plan),
        samples=len(plan.samples),
        samples_sha256=ids_sha256(sample.sample_id for sample in plan.samples),
        aa_sample_ids=sorted(plan.aa_sample_ids),
        baseline=config.baseline,
        variants={
            variant.name: VariantRun(
                name=variant.name,
                role=variant.role,
                of=variant.of,
                spec={
                    "kv_cache_dtype": variant.kv_cache_dtype,
                    "endpoint": variant.config.endpoint.model_dump(mode="json") if variant.config.endpoint else None,
                    "storage": variant.storage,
                    "emulate": variant.emulate.model_dump(mode="json") if variant.emulate else None,
                    "engine_args": plan.config.engine.args | variant.config.engine_args,
                    "speculative_config": variant.config.speculative_config,
                    "without_speculation": _partner(variant, plan),
                    "model": str(plan.models[variant.name].path),
                },
            )
            for variant in plan.variants
        },
        versions=provenance.versions(plan.installation.distribution, plan.installation.version),
        machine=provenance.machine(plan.installation.device_name),
        git=provenance.git_state(Path.cwd()),
        command=provenance.command(),
    )


def _partner(variant: ResolvedVariant, plan: Plan) -> str | None:
    partner = partner_of(variant, plan.variants)
    return partner.name if partner else None


def _sampling(plan: Plan) -> dict[str, Any]:
    sampling: dict[str, Any] = {"temperature": 0.0, "seed": 0, "prompt_style": plan.prompt_format.style}
    if plan.routes:
        sampling["asked_through"] = {task: route.name for task, route in sorted(plan.routes.items())}
    return sampling


# What may change between a run and its resumption without changing any answer. What lies in task folders and files
# of prompts is held against hashes.
_MAY_CHANGE = ("out", "judge", "requests", "accept_findings", "cold_check", "load", "include_path")


def check_same_run(old: Manifest, new: Manifest) -> None:
    """Raises ResumeError naming the first thing that differs."""
    before, now = (
        {key: value for key, value in manifest.config.items() if key not in _MAY_CHANGE} for manifest in (old, new)
    )
    for key, was, is_now in _differences(before, now):
        if key.startswith("tasks.") and key.endswith(".file"):
            continue
        raise ResumeError(
            f"--resume: {key} was {was!r} in this run and is {is_now!r} now; allowed: the same, or a new --out"
        )
    for name in sorted(old.inputs.keys() | new.inputs.keys()):
        if old.inputs.get(name) != new.inputs.get(name):
            raise ResumeError(
                f"--resume: {_not_the_one(name)} this run was made with; allowed: the same, or a new --out"
            )
    if old.samples_sha256 != new.samples_sha256:
        raise ResumeError("--resume: this kveval builds other samples than the run has; allowed: a new --out")


def _not_the_one(name: str) -> str:
    if name.startswith("task/") and name.endswith("/files"):
        return f"the files beside the YAML of {name.removesuffix('/files')} are not the ones"
    return f"{name} is not the one"


def _differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(key, old value, new value) of every leaf that differs, in the order of the configuration's keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**new, **old}:
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}".removeprefix("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (was, is_now) in enumerate(zip(old, new, strict=True)):
            yield from _differences(was, is_now, f"{key}.{position}")
    elif old != new:
        yield key, old, new


def check_same_engine(variant: str, before: Facts, now: Facts) -> None:
    old, new = before.identity(), now.identity()
    for key, value in old.items():
        if value != new[key]:
            raise ResumeError(
                f"--resume: {key} of {variant} was {value!r} in this run and is {new[key]!r} now; "
                "allowed: the same engine, or a new --out"
            )
