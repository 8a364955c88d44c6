"""Reads from a running vLLM server and its log what it really does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import Metric

from kveval.engines.metrics import cache_facts, metric_families, speculation_counters
from kveval.engines.plugin.emulation import EmulationSpec, parse_log
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.log import log_facts, scales_are_1, speculative_method
from kveval.formats.registry import CACHE_DTYPES
from kveval.models.cache_scheme import leaves_scales_unread
from kveval.models.weights import count_scales
from kveval.run.facts import Facts, Scales


def speculation_facts(families: Iterable[Metric], log: str) -> dict[str, Any]:
    """Returns ``speculative_tokens`` and ``speculative_method``. Empty if the server does not speculate."""
    # A speculating server has these counters from the start, at 0. Other servers never have them.
    tokens = sum(name.startswith("spec_accepted_at_") for name in speculation_counters(families))
    if not tokens:
        return {}
    return {"speculative_tokens": tokens, "speculative_method": speculative_method(log)}


def emulation_facts(spec: EmulationSpec, log: str) -> dict[str, Any]:
    """Returns what the log shows of an emulation that was asked for.

    If a plugin does not load, vLLM logs that and continues without it.
    """
    said = parse_log(log)
    return {
        "emulation": spec.label(),
        "emulation_live": said.is_live and said.requested == spec,
        "rounded_layers": None if said.rounded_layers is None else len(said.rounded_layers),
        "unrounded_layers": None if said.unrounded_layers is None else list(said.unrounded_layers),
    }


def scales_in_force(variant: ResolvedVariant, effective_dtype: str | None, model: Path, log: str) -> Scales:
    """Says where the scales of K and V come from. Unknown for a cache dtype that kveval does not know."""
    if variant.emulate is not None:
        scale = variant.emulate.constant_scale
        return "dynamic" if scale is None else "1.0" if scale == 1.0 else "calibrated"
    entry = CACHE_DTYPES.get(effective_dtype or variant.kv_cache_dtype)
    if entry is None:
        return "unknown"
    if entry.scaling != "per_tensor":
        return entry.scaling
    if scales_are_1(log) or leaves_scales_unread(model):
        return "1.0"
    found = count_scales(model)
    return "unknown" if found is None else "calibrated" if found else "1.0"


def assemble(
    variant: ResolvedVariant,
    *,
    version: str | None,
    metrics_text: str,
    models: Mapping[str, Any],
    log: str,
    model: Path,
    startup_seconds: float,
    engine_args: Mapping[str, Any],
    emulated: EmulationSpec | None = None,
) -> Facts:
    """Puts the facts together from the server's answers (/version, /metrics, /v1/models) and its log."""
    # What a worker says goes before what the server was told.
    told = cache_facts(metrics_text) | log_facts(log) | speculation_facts(metric_families(metrics_text), log)
    served: dict[str, Any] = next(iter(models.get("data", [])), {})
    for flag in ("max_num_seqs", "max_num_batched_tokens"):
        value = engine_args.get(flag.replace("_", "-"), engine_args.get(flag))
        if str(value).isdigit():
            told[flag] = int(value)
    return Facts(
        engine_version=version,
        requested_cache_dtype=variant.kv_cache_dtype,
        storage="emulated" if variant.emulate else "native",
        **(emulation_facts(emulated, log) if emulated else {}),
        scales=scales_in_force(variant, told.get("effective_cache_dtype"), model, log),
        max_model_len=served.get("max_model_len"),
        startup_seconds=round(startup_seconds, 1),
        **told,
    )
