"""The sweep that shows what this device does with each cache dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import kveval
from kveval.config.emulation import emulation_of
from kveval.engines.base import Installation
from kveval.errors import KvevalError, UsageError
from kveval.formats.registry import CACHE_DTYPES, CPU_DTYPES

_QUESTIONS = 20


@dataclass(frozen=True)
class WhatToSweep:
    """
    Attributes:
        config: of the sweep.
        refused: why cache dtypes are not launched, by name.
    """

    config: dict[str, Any]
    refused: dict[str, str]


def what_to_sweep(installation: Installation, model: str, dtypes: Sequence[str] | None) -> WhatToSweep:
    """Plans every quantized cache dtype that the installed vLLM knows, or those of `dtypes`, with its control.

    Raises:
        UsageError: vLLM does not know one of `dtypes`.
    """
    known = installation.device.cache_dtypes or {name for name, one in CACHE_DTYPES.items() if one.is_in_vllm}
    if installation.device.kind == "cpu":
        known &= set(CPU_DTYPES)
    quantized = sorted(name for name in known if name not in CACHE_DTYPES or CACHE_DTYPES[name].is_quantized)
    unknown = next((name for name in dtypes or () if name not in quantized), None)
    if unknown is not None:
        raise UsageError(f"--dtypes: {unknown!r} is no quantized cache dtype here; use: {', '.join(quantized)}")
    config = _config(installation, model)
    baseline, refused = config["variants"], {}
    variants = list(baseline)
    twins = {CACHE_DTYPES[name].same_as for name in quantized if name in CACHE_DTYPES}
    for name in dtypes or [name for name in quantized if name not in twins]:
        variant: dict[str, Any] = {"name": name, "kv_cache_dtype": name}
        if emulation_of(name, installation.device.architecture) is not None:
            variant["control"] = "emulated"
        try:
            kveval.plan_sweep({**config, "variants": [*baseline, variant]})
        except KvevalError as error:
            refused[name] = f"refused while planning: {error}"
        else:
            variants.append(variant)
    if len(variants) == len(baseline):
        # Something has to be emulated and forced even where the device stores nothing.
        variants.append({"name": "int8-emulated", "emulate": {"format": "int8"}})
    return WhatToSweep({**config, "variants": variants}, refused)


def _config(installation: Installation, model: str) -> dict[str, Any]:
    device = installation.device
    is_slow = device.kind == "cpu" and bool(device.cpu_flags) and not device.has_native_fp8
    return {
        "model": model,
        "variants": [{"name": "baseline", "kv_cache_dtype": "auto" if is_slow else "bfloat16"}],
        "baseline": "baseline",
        "context_lengths": [512],
        "tasks": ["niah_multikey"],
        "samples": _QUESTIONS,
        "questions_per_haystack": 5,
        "haystack": "generated",
        "aa_share": 1.0,
        "cold_check": 0,
        "stop": "never",
        "engine": {"kv_cache_gib": 1, "args": {"dtype": "float32"} if is_slow else {}},
    }
