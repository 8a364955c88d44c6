"""The document of a load measurement: made new, or read again to go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kveval
from kveval.config.engine import without_secrets
from kveval.engines.variants import ResolvedVariant
from kveval.errors import ResumeError, RunDirectoryError
from kveval.load.plan import LoadPlan
from kveval.measure import provenance
from kveval.measure.plan.manifest import hash_models
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LOAD_FILE, LoadDocument, LoadVariant, read_load


def open_document(plan: LoadPlan, out: Path, *, resume: bool) -> LoadDocument:
    """Returns the document to go on with: the one in `out` on resume, else a new one.

    Raises:
        RunDirectoryError: `out` holds results and `resume` is off, or answers of another model.
        ResumeError: the results were made with other inputs.
    """
    fresh = LoadDocument(
        kveval_version=kveval.__version__,
        created=provenance.now(),
        baseline=plan.config.baseline,
        config=plan.load.model_dump(mode="json"),
        inputs=hash_models(plan.models, plan.models[plan.config.baseline]),
        max_model_len=plan.max_model_len,
        variants={v.name: LoadVariant(name=v.name, role=v.role, of=v.of, spec=_spec(plan, v)) for v in plan.variants},
        versions=provenance.versions(plan.installation.distribution, plan.installation.version),
        machine=provenance.machine(plan.installation.device_name),
        git=provenance.git_state(Path.cwd()),
        command=provenance.command(),
    )
    _check_same_model(out, fresh)
    stored = read_load(out)
    if stored is None:
        return fresh
    if not resume:
        raise RunDirectoryError(
            f"--out {out}: holds {LOAD_FILE} already; use: another folder, or --resume to go on with it"
        )
    names = sorted({*stored.inputs, *fresh.inputs})
    changed = [name for name in names if stored.inputs.get(name) != fresh.inputs.get(name)]
    if changed:
        raise ResumeError(
            f"--resume: {changed[0]} is not the one {LOAD_FILE} was made with; use: the same, or a new --out"
        )
    for name, new in fresh.variants.items():
        old = stored.variants.get(name)
        for key in new.spec:
            if old is not None and old.spec.get(key) != new.spec[key]:
                raise ResumeError(
                    f"--resume: {key} of {name} was {old.spec.get(key)!r} in {LOAD_FILE} and is {new.spec[key]!r} now; "
                    "use: the same, or a new --out"
                )
    kept = {"created": stored.created, "finished": stored.finished, "variants": fresh.variants | stored.variants}
    return fresh.model_copy(update=kept)


def _spec(plan: LoadPlan, variant: ResolvedVariant) -> dict[str, Any]:
    return {
        "kv_cache_dtype": variant.kv_cache_dtype,
        "endpoint": variant.config.endpoint.model_dump(mode="json") if variant.config.endpoint else None,
        "emulate": variant.emulate.model_dump(mode="json") if variant.emulate else None,
        "engine_args": plan.config.engine.args | variant.config.engine_args,
        "env": without_secrets(plan.config.engine.env | variant.config.env),
        "kv_cache_gib": plan.config.engine.kv_cache_gib,
        "model": str(plan.models[variant.name].path),
    }


def _check_same_model(out: Path, fresh: LoadDocument) -> None:
    """Raises RunDirectoryError if `out` has answers of another model: a run directory is about one model."""
    run = RunDirectory(out)
    if not run.exists():
        return
    theirs = run.read_manifest().inputs
    for name in sorted(fresh.inputs.keys() & theirs.keys()):
        if fresh.inputs[name] != theirs[name]:
            raise RunDirectoryError(
                f"--out {out}: the answers there are of a model with another {name}; use: another folder"
            )
