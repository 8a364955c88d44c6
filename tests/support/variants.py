"""Variants as a configuration makes them, resolved for a device."""

from __future__ import annotations

from typing import Any

from kveval.config.sweep import SweepConfig, validate_config
from kveval.engines.variants import Device, ResolvedVariant, resolve

CPU = Device("cpu", frozenset({"avx512f"}))
GPU = Device("cuda")
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}


def configured(*variants: Any) -> SweepConfig:
    """A configuration of ``bf16`` and `variants`."""
    given = [*(() if "bf16" in variants else ("bf16",)), *variants]
    return validate_config({"model": "m", "variants": given, "tasks": ["t"], "context_lengths": [512]})


def variant(name: str = "fp8", role: str = "candidate", device: Device = CPU, **changes: Any) -> ResolvedVariant:
    """One variant of `configured`; `changes` are its other keys."""
    return resolve(configured({"name": name, **changes} if changes else name).variant(name), device, role)


def resolved(*variants: Any, device: Device = CPU) -> list[ResolvedVariant]:
    """Every variant of `configured`, the baseline first."""
    given = configured(*variants).variants
    return [resolve(one, device, "baseline" if one.name == "bf16" else "candidate") for one in given]


def speculating(wanted: Any = NGRAM, **changes: Any) -> dict[str, Any]:
    """The keys of a variant named ``ngram`` that speculates."""
    return {"name": "ngram", "kv_cache_dtype": "bfloat16", "speculative_config": wanted, **changes}
