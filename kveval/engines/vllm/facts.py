"""What the engine really does, established from the running server, and what follows from it."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kveval.engines.metrics import cache_config, metric_families
from kveval.engines.variants import LEAST_CAPACITY_RATIO, ResolvedVariant
from kveval.engines.vllm.speculation import judge_speculation, speculation_facts
from kveval.formats.registry import CACHE_DTYPES, CPU_DTYPES, is_same_format, is_unquantized
from kveval.run.facts import Facts, Scales
from kveval.run.findings import Finding


def log_facts(log: str) -> dict[str, Any]:
    """What only the engine's log says: backend, eager or graphs, model dtype, device."""
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


def checkpoint_scales(model: Path) -> int | None:
    """How many K or V scale tensors the checkpoint's safetensors headers list; None when one cannot be read."""
    count = 0
    for path in sorted(model.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                size = struct.unpack("<Q", file.read(8))[0]
                names = json.loads(file.read(min(size, 100_000_000)))
            count += sum(name.endswith((".k_scale", ".v_scale", ".kv_scale")) for name in names)
        except (OSError, ValueError, struct.error, TypeError, AttributeError):
            return None
    return count


def scales_in_force(variant: ResolvedVariant, effective_dtype: str | None, model: Path, log: str) -> Scales:
    """Say where the scales of K and V come from; unknown for a cache dtype that kveval does not know."""
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
    found = checkpoint_scales(model)
    return "unknown" if found is None else "calibrated" if found else "1.0"


def judge_facts(facts: Facts, variant: ResolvedVariant, baseline: Facts | None) -> list[Finding]:
    """What a reviewer must know, or why the variant must not be measured (level error)."""
    findings: list[Finding] = []

    def add(level: Literal["info", "warning", "error"], code: str, message: str) -> None:
        findings.append(Finding(level=level, code=code, message=message))

    requested, effective = variant.kv_cache_dtype, facts.effective_cache_dtype
    if effective is None:
        add("warning", "dtype_unknown", f"the server does not report its cache dtype; {requested} was asked for")
    elif not is_same_format(requested, effective) and requested != "auto":
        add("error", "dtype_mismatch", f"{requested} was asked for, the server stores {effective}")
    entry = CACHE_DTYPES.get(effective or requested)
    if entry is None:
        add("warning", "unknown_format", _unknown_format(effective or requested, facts.kv_capacity_ratio))
    if facts.device == "cpu" and (effective or requested) not in CPU_DTYPES:
        add("error", "cpu_unsupported", f"the CPU engine corrupts a cache of {effective or requested}")
    if variant.role == "baseline" and effective is not None and not is_unquantized(effective):
        add("error", "baseline_quantized", f"the baseline's cache is {effective}: there is nothing to compare with")
    if facts.storage == "emulated":
        add(
            "info", "emulated", f"{facts.emulation}: the numerics of the format, stored as {effective}; saves no memory"
        )
        if not facts.emulation_live:
            add("error", "emulation_dead", "the engine log does not show K and V being rounded: the plugin is not live")
    if baseline is not None:
        _compare_with_baseline(facts, variant, baseline, add)
    if facts.scales == "1.0" and variant.role == "candidate":
        add("warning", "scales_1", "K and V scales are all 1.0: the checkpoint has no calibrated scales")
    if facts.skip_layers not in (None, "", "[]"):
        add("warning", "skip_layers", f"layers left unquantized: {facts.skip_layers}")
    if facts.prefix_caching is False:
        add("warning", "no_prefix_caching", "prefix caching is off: every question pays its own prefill")
    return findings + judge_speculation(variant, facts.speculative_tokens, facts.speculative_method)


def _unknown_format(dtype: str, capacity_ratio: float | None) -> str:
    holds = "" if capacity_ratio is None else f"; it holds {capacity_ratio:.2f} times the baseline's tokens"
    return (
        f"kveval does not know the cache dtype {dtype}: how its scales are set and how many tokens its cache should "
        f"hold are not checked{holds}"
    )


def _compare_with_baseline(facts: Facts, variant: ResolvedVariant, baseline: Facts, add: Any) -> None:
    ratio, expected = facts.kv_capacity_ratio, variant.expected_capacity_ratio
    if expected is not None and ratio is not None and ratio < LEAST_CAPACITY_RATIO:
        add(
            "error", "capacity_unchanged",
            f"the cache holds {ratio:.2f} times the baseline's tokens: a native {variant.kv_cache_dtype} cache holds "
            f"about {expected:.1f} times as many",
        )  # fmt: skip
    if facts.attention_backend != baseline.attention_backend:
        add(
            "warning", "other_backend",
            f"attention backend {facts.attention_backend}, the baseline's is {baseline.attention_backend}: "
            "format and kernel changed together",
        )  # fmt: skip
    for key in ("engine_version", "execution", "model_dtype", "max_model_len"):
        if getattr(facts, key) != getattr(baseline, key):
            add("warning", f"other_{key}", f"{key} {getattr(facts, key)}, the baseline's is {getattr(baseline, key)}")


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
    """One `Facts` from the server's answers: /version, /metrics, /v1/models and its log."""
    cache = cache_config(metrics_text)

    def number(label: str) -> int | None:
        value = cache.get(label, "")
        return int(float(value)) if re.fullmatch(r"\d+(\.\d+)?", value) else None

    from_log = log_facts(log) | speculation_facts(metric_families(metrics_text), log)
    effective = cache.get("cache_dtype")
    served: dict[str, Any] = next(iter(models.get("data", [])), {})
    for flag in ("max_num_seqs", "max_num_batched_tokens"):
        value = engine_args.get(flag.replace("_", "-"), engine_args.get(flag))
        if str(value).isdigit():
            from_log[flag] = int(value)
    return Facts(
        engine_version=version,
        requested_cache_dtype=variant.kv_cache_dtype,
        effective_cache_dtype=effective,
        storage="emulated" if variant.emulate else "native",
        emulation=emulation_label,
        emulation_live=emulation_live,
        kv_capacity_tokens=number("kv_cache_size_tokens"),
        block_size=number("block_size"),
        scales=scales_in_force(variant, effective, model, log),
        prefix_caching={"True": True, "False": False}.get(cache.get("enable_prefix_caching", "")),
        max_model_len=served.get("max_model_len"),
        skip_layers=cache.get("kv_cache_dtype_skip_layers"),
        startup_seconds=round(startup_seconds, 1),
        **from_log,
    )
