"""The manifest of a new run."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import kveval
from kveval.engines.speculation import partner_of
from kveval.engines.variants import ResolvedVariant
from kveval.measure import provenance
from kveval.measure.plan.inputs import hash_inputs
from kveval.measure.plan.plan import Plan
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.samples import ids_sha256


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
