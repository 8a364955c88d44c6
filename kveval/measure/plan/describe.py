"""Describes a plan: what a sweep would ask, and what that costs."""

from __future__ import annotations

import os
from typing import Any

from kveval.config.endpoint import EndpointConfig
from kveval.engines.speculation import speculation_notes
from kveval.engines.variants import is_its_own_control
from kveval.measure.haystacks import group_by_haystack, tokens_to_compute
from kveval.measure.plan.asked_again import is_cold_checked
from kveval.measure.plan.plan import Plan
from kveval.measure.plan.references import why_without
from kveval.measure.plan.variants import flags_of
from kveval.measure.watch.blocks import sentinels_of
from kveval.run.manifest import chosen_in_words
from kveval.tasks.sample import Sample

# Assumed for the estimate only: operations per second of one CPU core, and of a data-centre GPU.
_CPU_CORE_FLOPS = 8e10
# Without AVX-512, PyTorch has no fast product of 16-bit matrices.
_OLD_CPU_CORE_FLOPS, _OLD_CPU_CORE_FLOPS_16_BIT = 2e10, 5e9
_GPU_FLOPS = 2e14
_CPU_LAUNCH_SECONDS, _GPU_LAUNCH_SECONDS = 45.0, 120.0


def describe(plan: Plan) -> dict[str, Any]:
    """Returns the plan as data for JSON: what ``kveval sweep --dry-run`` prints."""
    haystacks = group_by_haystack(plan.samples)
    unshared = sum(len(sample.prompt) for sample in plan.samples)
    prefills = plan.prefills_of(plan.variants[0])
    shared = sum(
        haystack.shared_tokens * min(prefills, len(haystack.samples))
        + sum(len(s.prompt.tail) for s in haystack.samples)
        for haystack in haystacks
    )
    output = sum(sample.max_output_tokens for sample in plan.samples)
    share = len(plan.aa_sample_ids) / len(plan.samples)
    passes = sum(share if variant.role == "aa" else 1.0 for variant in plan.variants)
    checked = sum(is_cold_checked(variant.role) for variant in plan.variants)
    cold = plan.cold_samples
    again = sum(_asked_again(plan.samples_of(variant)) for variant in plan.variants)
    forced = sum(_forced(plan, plan.samples_of(variant)) for variant in plan.variants)
    cold_prefill = checked * sum(len(sample.prompt) for sample in cold)
    cold_output = checked * sum(sample.max_output_tokens for sample in cold)
    return {
        "model": str(plan.model.path),
        "device": plan.installation.device.kind,
        "engine": _engine(plan),
        "prompt_style": plan.prompt_format.style,
        "asked_through": {task: f"{route.name} ({route.reason})" for task, route in plan.routes.items()},
        "variants": [
            {
                "name": v.name, "role": v.role, "storage": v.storage,
                "kv_cache_dtype": v.kv_cache_dtype + (" (declared)" if v.config.endpoint else ""),
                "emulates": None if v.emulate is None else f"{v.emulate.format} {v.emulate.granularity}",
                "endpoint": None if v.config.endpoint is None else _endpoint(v.config.endpoint),
                "samples": len(plan.samples_of(v)),
            }
            for v in plan.variants
        ],
        "notes": [
            *chosen_in_words(plan.questions), *_reuse(plan),
            *_slow_dtype(plan), *_left_out_controls(plan),
            *speculation_notes(plan.variants), *(finding.message for finding in plan.findings), *_divergence(plan)
        ],
        "cells": _cell_rows(plan),
        "output_budgets": _budget_rows(plan),
        "samples": len(plan.samples),
        "haystacks": len(haystacks),
        "prompt_tokens": unshared,
        "prefill_tokens_without_sharing": unshared,
        "prefill_tokens_with_sharing": shared,
        "output_tokens_at_most": output,
        "engine_launches": 0 if plan.config.is_attached else len(plan.variants),
        "requests": round(passes * len(plan.samples)) + again + checked * len(cold) + forced,
        "of_them_asked_again": again,
        "of_them_without_prefix_cache": checked * len(cold),
        "of_them_forced": forced,
        "prefill_tokens_without_prefix_cache": cold_prefill,
        "max_model_len": plan.max_model_len,
        "estimate": _estimate(plan, passes * (shared + output) + cold_prefill + cold_output),
    }  # fmt: skip


def _divergence(plan: Plan) -> list[str]:
    """Says what the divergence adds. Its requests are no part of the others' numbers."""
    if not plan.texts:
        return []
    if plan.config.is_attached:
        return ["divergence: not measured, because outputs cannot be forced on servers that already run"]
    forced, prompts = (sum(values) for values in zip(*((t.tokens, len(t.prompt_ids)) for t in plan.texts), strict=True))
    return [
        f"divergence: every variant is made to write {len(plan.texts)} texts, {forced:,} tokens after {prompts:,} "
        "prompt tokens; the baseline writes outputs itself first, so it takes twice the time"
    ]


def _cpu_core_flops(plan: Plan) -> float:
    device = plan.installation.device
    if device.has_native_fp8 or not device.cpu_flags:
        return _CPU_CORE_FLOPS
    return _OLD_CPU_CORE_FLOPS_16_BIT if _slow_dtype(plan) else _OLD_CPU_CORE_FLOPS


def _slow_dtype(plan: Plan) -> list[str]:
    """Says that another dtype of the model is much faster on this processor. Nothing if not."""
    device = plan.installation.device
    dtype = flags_of(plan.config, plan.variants[0].config).get("dtype")
    if device.kind != "cpu" or not device.cpu_flags or device.has_native_fp8 or dtype == "float32":
        return []
    return [
        "this processor has no AVX-512, and 16-bit models are several times slower on it than float32; to try things "
        "out, use engine.args: {dtype: float32}, with which caches are float32 as well"
    ]


def _left_out_controls(plan: Plan) -> list[str]:
    """Says which controls are not launched because the candidate already is what its control would be."""
    return [
        f"{one.name}: this processor cannot store {one.config.kv_cache_dtype}, so {one.name} is emulated, and needs "
        "no emulated control"
        for one in plan.variants
        if is_its_own_control(one)
    ]


def _reuse(plan: Plan) -> list[str]:
    """Says that fewer questions may be asked than the plan counts."""
    if plan.config.baseline_from is None:
        return []
    return [
        f"answers are taken from {plan.config.baseline_from} for each variant of which nothing changed; then only "
        f"{plan.config.confirm_share:.0%} of its contexts are asked, and what is counted here is the most"
    ]


def _asked_again(samples: list[Sample]) -> int:
    return sentinels_of(group_by_haystack(samples), sum(tokens_to_compute(samples).values()))


def _forced(plan: Plan, samples: list[Sample]) -> int:
    """Counts the texts that a variant is made to write, one request each. Servers that cannot may take one a token."""
    planned = (plan.references.get(sample.sample_id) for sample in samples)
    return sum(len(one.texts) for one in planned if one is not None)


def _engine(plan: Plan) -> str:
    if plan.config.is_attached:
        return "servers that already run"
    return f"{plan.installation.distribution or 'configured command'} {plan.installation.version or ''}".strip()


def _endpoint(endpoint: EndpointConfig) -> str:
    declared = ", ".join(f"{key} {value}" for key, value in endpoint.declared.model_dump(exclude_none=True).items())
    return f"{endpoint.model} at {endpoint.url}" + (f"; declared: {declared}" if declared else "")


def _cell_rows(plan: Plan) -> list[dict[str, Any]]:
    styles = {cell.task: cell.haystack_style for cell in plan.cells}
    cells: dict[tuple[str, int], list[Sample]] = {}
    for sample in plan.samples:
        cells.setdefault((sample.task, sample.context_length), []).append(sample)
    return [
        {
            "task": task, "context_length": context_length, "samples": len(samples),
            "haystacks": len({sample.haystack_id for sample in samples}), "haystack": styles.get(task, "as given"),
            **_expected(plan, samples),
        }
        for (task, context_length), samples in cells.items()
    ]  # fmt: skip


def _budget_rows(plan: Plan) -> list[dict[str, Any]]:
    """Returns the largest output budget of each task, and the share of the window that it takes."""
    largest: dict[str, int] = {}
    for sample in plan.samples:
        largest[sample.task] = max(largest.get(sample.task, 0), sample.max_output_tokens)
    window = plan.max_model_len
    return [
        {"task": task, "output_tokens": tokens, "output_share": round(tokens / window, 4) if window else None}
        for task, tokens in largest.items()
    ]


def _expected(plan: Plan, samples: list[Sample]) -> dict[str, Any]:
    """Returns the unit of a cell's expected score, and why samples have none."""
    units = (plan.references[one.sample_id].references.unit for one in samples if one.sample_id in plan.references)
    return {
        "expected_score": next(units, None),
        "no_expected_score_because": why_without(samples, plan.without_reference),
    }


def _estimate(plan: Plan, tokens: float) -> dict[str, Any]:
    """Estimates seconds. A token takes 2 x parameters operations (Kaplan et al., arXiv 2001.08361, section 2.1)."""
    if plan.config.is_attached:
        none = {"seconds": None, "launch_seconds": 0, "asking_seconds": None}
        return {**none, "assumes": "nothing: the speed of the servers is known only once they answer"}
    is_cpu = plan.installation.device.kind == "cpu"
    flops = _cpu_core_flops(plan) * (os.cpu_count() or 1) if is_cpu else _GPU_FLOPS
    launches = (_CPU_LAUNCH_SECONDS if is_cpu else _GPU_LAUNCH_SECONDS) * len(plan.variants)
    asking = tokens * 2 * plan.model.parameters / flops
    more = {"load": plan.config.load, "divergence": plan.config.divergence}
    return {
        "seconds": round(launches + asking),
        "launch_seconds": round(launches),
        "asking_seconds": round(asking),
        "assumes": f"{flops:.0e} operations per second; the progress display measures the real speed"
        + "".join(f"; the time that `{key}` takes is not included" for key, given in more.items() if given),
    }
