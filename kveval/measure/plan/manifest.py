"""The manifest of a new run, and of a run that goes on with what it was made with."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kveval
from kveval.engines.speculation import partner_of
from kveval.engines.variants import ResolvedVariant
from kveval.errors import FactsError, ResumeError
from kveval.measure import provenance
from kveval.measure.plan.growth import without_samples
from kveval.measure.plan.plan import Plan
from kveval.measure.plan.prompts import server_template
from kveval.measure.plan.references import why_without
from kveval.models.checkpoint import Model, hash_model, read_model
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import ids_sha256
from kveval.tasks.scoring import SCORING_VERSION
from kveval.tasks.task_files import hash_task_files, own_tasks

# What may change between a run and its resumption without changing an answer. Folders and files may move: hashes tell
# whether their content is the same.
_MAY_CHANGE = (
    "out",
    "baseline_from",
    "confirm_share",
    "judge",
    "requests",
    "accept_findings",
    "cold_check",
    "load",
    "divergence",
    "include_path",
    "budget",
)
# Keys that runs made before them do not have.
_ADDED = ("stop",)
_INSTEAD = "use the same one, or a new --out"


def new_manifest(plan: Plan) -> Manifest:
    """Returns the manifest of a run of `plan` that has asked nothing yet."""
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
        questions_per_haystack=list(plan.questions),
        growth=list(plan.growth),
        without_reference=dict(_without_reference(plan)),
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


def _without_reference(plan: Plan) -> Iterator[tuple[str, str]]:
    if not plan.config.requests.forced_decode:
        return
    for name in dict.fromkeys(sample.task for sample in plan.samples):
        why = why_without((sample for sample in plan.samples if sample.task == name), plan.without_reference)
        if why:
            yield name, why


def _partner(variant: ResolvedVariant, plan: Plan) -> str | None:
    partner = partner_of(variant, plan.variants)
    return partner.name if partner else None


def _sampling(plan: Plan) -> dict[str, Any]:
    sampling: dict[str, Any] = {"temperature": 0.0, "seed": 0, "prompt_style": plan.prompt_format.style}
    if plan.routes:
        sampling["asked_through"] = {task: route.name for task, route in sorted(plan.routes.items())}
    return sampling


def hash_models(models: Mapping[str, Model], shared: Model) -> dict[str, str]:
    """Returns the sha256 of every file of every checkpoint. Labels name a variant unless its model is `shared`."""
    inputs: dict[str, str] = {}
    for path in sorted({model.path for model in models.values()}):
        users = [name for name, model in models.items() if model.path == path]
        label = "model" if path == shared.path else f"model of {users[0]}"
        inputs |= {f"{label}/{name}": digest for name, digest in hash_model(read_model(path)).items()}
    return inputs


def hash_inputs(plan: Plan) -> dict[str, str]:
    """Returns the sha256 of every input by its label. A resumed run must have the same."""
    inputs = hash_models(plan.models, plan.model)
    inputs["tokenizer"] = plan.prompt_format.tokenizer_sha256
    if plan.prompt_format.chat_template_sha256:
        inputs["chat template"] = plan.prompt_format.chat_template_sha256
    template = server_template(plan.config)
    if template is not None:
        inputs["chat template of the engine"] = hashlib.sha256(template.encode()).hexdigest()
    for name, task in sorted(plan.tasks.items()):
        inputs[f"task/{name}"] = hashlib.sha256(
            repr((task.version, task.metadata, SCORING_VERSION)).encode()
        ).hexdigest()
    if plan.config.include_path is not None:
        for own in own_tasks(plan.config.include_path):
            if own.name in plan.tasks:
                inputs[f"task/{own.name}/files"] = hash_task_files(own.path)
    return inputs


def check_same_run(old: Manifest, new: Manifest) -> None:
    """Raises ResumeError: configuration, inputs or samples of a run are not what they would be now."""
    may_change = without_samples if is_grown(old, new) else dict
    left_out = {*_MAY_CHANGE, *(key for key in _ADDED if key not in old.config)}
    before, now = (
        {key: value for key, value in may_change(manifest.config).items() if key not in left_out}
        for manifest in (old, new)
    )
    for key, was, is_now in _differences(before, now):
        if key.startswith("tasks.") and key.endswith(".file"):
            continue
        raise ResumeError(f"--resume: {key} was {was!r} in this run and is {is_now!r} now; {_INSTEAD}")
    for name in sorted(old.inputs.keys() | new.inputs.keys()):
        if old.inputs.get(name) != new.inputs.get(name):
            raise ResumeError(f"--resume: {_shown(name)} changed since this run was made; {_INSTEAD}")
    if not is_grown(old, new) and old.samples_sha256 != new.samples_sha256:
        raise ResumeError("--resume: this version of kveval builds other samples than the run has; use a new --out")


def manifest_of(run: RunDirectory, plan: Plan) -> Manifest:
    """Returns the manifest with which a sweep of `plan` begins in a folder. Raises as `check_same_run` does."""
    return resumed_manifest(run.read_manifest(), plan) if run.exists() else new_manifest(plan)


def is_grown(old: Manifest, new: Manifest) -> bool:
    """Whether `new` adds samples to the run of `old`."""
    return len(new.growth) > len(old.growth)


def resumed_manifest(old: Manifest, plan: Plan) -> Manifest:
    """Returns the manifest of a run that goes on. Raises as `check_same_run` does."""
    new = new_manifest(plan)
    check_same_run(old, new)
    variants = {name: old.variants.get(name, planned) for name, planned in new.variants.items()}
    changes: dict[str, Any] = {"status": "running", "finished": None, "variants": variants}
    if is_grown(old, new):
        changes |= _growth(old, new, plan)
    return old.model_copy(update=changes)


def _growth(old: Manifest, new: Manifest, plan: Plan) -> dict[str, Any]:
    """Returns what changes in a manifest when samples are added. Raises ResumeError: they do not fit the run's."""
    before = [sample.sample_id for stage in plan.stages[: len(old.growth) + 1] for sample in stage]
    if ids_sha256(before) != old.samples_sha256 or new.growth[: len(old.growth)] != old.growth:
        raise ResumeError(
            "--resume: samples cannot be added: this version of kveval, or this plan, builds other samples than the "
            "run has; use a new --out"
        )
    reason = f"samples were added to its {len(before)} and not asked yet"
    # What is complete with fewer samples is not complete with more.
    variants = {
        name: one.model_copy(update={"status": "stopped", "reason": reason}) if one.status == "complete" else one
        for name, one in old.variants.items()
        if name in new.variants
    }
    copied = ("samples", "samples_sha256", "aa_sample_ids", "growth", "without_reference")
    return {
        **{key: getattr(new, key) for key in copied},
        "config": old.config | {key: new.config[key] for key in ("samples", "tasks")},
        "variants": {name: variants.get(name, planned) for name, planned in new.variants.items()},
    }


def check_same_engine(
    variant: str, before: Facts, now: Facts, *, is_resumed: bool = True, grown_max_model_len: int | None = None
) -> None:
    """Checks that an engine does what it did before.

    Args:
        is_resumed: an earlier command asked the engine. Otherwise it went away and came back during this one.
        grown_max_model_len: the window that samples added to the run need. It may be larger than before.

    Raises:
        ResumeError: it does something else in a resumed run. Names the first fact that differs.
        FactsError: it does something else since it came back.
    """
    old, new = before.identity(), now.identity()
    if grown_max_model_len is not None and new["max_model_len"] == grown_max_model_len > (before.max_model_len or 0):
        del old["max_model_len"]
    for key, value in old.items():
        if value == new[key]:
            continue
        was, is_now = _without_common(value, new[key])
        if is_resumed:
            raise ResumeError(
                f"--resume: {key} of {variant} was {was!r} in this run and is {is_now!r} now; "
                "use the same engine, or a new --out"
            )
        raise FactsError(f"{key} of {variant} was {was!r} before and is {is_now!r} now")


def _without_common(before: Any, now: Any) -> tuple[Any, Any]:
    """Leaves out what two lists share."""
    if not (isinstance(before, list) and isinstance(now, list)):
        return before, now
    return [one for one in before if one not in now], [one for one in now if one not in before]


def _shown(name: str) -> str:
    if name.startswith("task/") and name.endswith("/files"):
        return f"a file beside the YAML of {name.removesuffix('/files')}"
    return name


def _differences(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields (key, old value, new value) of every leaf that differs, in the order of the configuration's keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**new, **old}:
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}".removeprefix("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (was, is_now) in enumerate(zip(old, new, strict=True)):
            yield from _differences(was, is_now, f"{key}.{position}")
    elif old != new:
        yield key, old, new
