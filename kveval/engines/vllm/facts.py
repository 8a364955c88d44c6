"""Reads from a running vLLM server and its log what it really does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client import Metric

from kveval.engines.metrics import cache_facts, metric_families, speculation_counters
from kveval.engines.variants import ResolvedVariant
from kveval.formats.registry import CACHE_DTYPES
from kveval.models.weights import count_scales
from kveval.run.facts import Facts, Scales


def log_facts(log: str) -> dict[str, Any]:
    """Reads what only the engine's log says: backend, eager or graphs, model dtype, device."""
    facts: dict[str, Any] = {}
    backends = re.findall(r"Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+) (?:attention )?backend\b", log)
    if backends:
        facts["attention_backend"] = backends[0]
    config = re.search(r"Initializing a V1 LLM engine \((?:v([^)]+))\) with config: (.*)", log)
    if config:
        line = config[2]
        for key, pattern in (("model_dtype", r"\bdtype=torch\.(\w+)"), ("device", r"\bdevice_config=(\w+)")):
            match = re.search(pattern, line)
            if match:
                facts[key] = match[1]
        eager = re.search(r"\benforce_eager=(True|False)", line)
        if eager:
            facts["execution"] = "eager" if eager[1] == "True" else "graphs"
    batched = re.search(r"max_num_batched_tokens[=:\s]+(\d+)", log)
    if batched:
        facts["max_num_batched_tokens"] = int(batched[1])
    memory = re.search(r"Available KV cache memory: ([\d.]+) GiB", log)
    if memory:
        facts["kv_cache_gib"] = float(memory[1])
    if facts.get("device") == "cpu" and "attention_backend" not in facts:
        # The CPU platform logs no backend for ordinary attention (vllm/platforms/cpu.py).
        facts["attention_backend"] = "CPU_ATTN"
    return facts


def speculation_facts(families: Iterable[Metric], log: str) -> dict[str, Any]:
    """Returns ``speculative_tokens`` and ``speculative_method``. Empty if the server does not speculate."""
    # A speculating server has these counters from the start, at 0. Other servers never have them.
    tokens = sum(name.startswith("spec_accepted_at_") for name in speculation_counters(families))
    if not tokens:
        return {}
    method = re.search(r"speculative_config=SpeculativeConfig\(method='(\w+)'", log)
    return {"speculative_tokens": tokens, "speculative_method": method[1] if method else None}


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
    if "Using KV cache scaling factor 1.0" in log:
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
    emulation_label: str | None,
    emulation_live: bool | None,
) -> Facts:
    """Puts the facts together from the server's answers (/version, /metrics, /v1/models) and its log."""
    cache = cache_facts(metrics_text)
    from_log = log_facts(log) | speculation_facts(metric_families(metrics_text), log)
    served: dict[str, Any] = next(iter(models.get("data", [])), {})
    for flag in ("max_num_seqs", "max_num_batched_tokens"):
        value = engine_args.get(flag.replace("_", "-"), engine_args.get(flag))
        if str(value).isdigit():
            from_log[flag] = int(value)
    return Facts(
        engine_version=version,
        requested_cache_dtype=variant.kv_cache_dtype,
        storage="emulated" if variant.emulate else "native",
        emulation=emulation_label,
        emulation_live=emulation_live,
        scales=scales_in_force(variant, cache.get("effective_cache_dtype"), model, log),
        max_model_len=served.get("max_model_len"),
        startup_seconds=round(startup_seconds, 1),
        **cache,
        **from_log,
    )
