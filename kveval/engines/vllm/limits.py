"""Cache dtypes that vLLM would refuse, crash with or misread on a GPU: known before it is launched.

Read from the source of vLLM 0.32, not run. What the engine on a CPU stores is checked in `kveval.engines.variants`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kveval.engines.variants import Device, ResolvedVariant, emulated_alternative
from kveval.engines.vllm.log import LOG_LEVELS, LOGGING
from kveval.errors import PlanError, UsageError
from kveval.formats.backends import READ_AS_E4M3, Shape, generation_of, is_listed, is_stored_on, stored_dtype
from kveval.formats.registry import CACHE_DTYPES
from kveval.memory.architecture import Architecture, read_architecture
from kveval.memory.formats import shapes_of
from kveval.models.cache_scheme import has_fp8_scales
from kveval.models.checkpoint import Model

_SKIPPED = "kv-cache-dtype-skip-layers"


def check_storage(variant: ResolvedVariant, model: Model, flags: Mapping[str, Any], device: Device) -> None:
    """Raises PlanError if vLLM cannot store this variant's cache of this model on this device.

    Args:
        flags: the configured flags of the variant.
    """
    if variant.config.endpoint is not None or variant.emulate is not None:
        return
    dtype = variant.kv_cache_dtype
    reason = _misread(dtype, model, device) or _not_stored(dtype, model, pinned_backend(flags), device)
    if reason:
        raise PlanError(
            f"variants.{variant.name}: kv_cache_dtype: {reason}, or emulated: {emulated_alternative(dtype)}"
        )


def check_skipped(variant: ResolvedVariant, model: Model, flags: Mapping[str, Any]) -> None:
    """Raises PlanError if ``kv-cache-dtype-skip-layers`` names a layer that the model does not have.

    vLLM says nothing of it, and quantizes the layer that was meant (`Attention`, vllm/model_executor/layers/attention/
    attention.py).
    """
    given = flags.get(_SKIPPED)
    if given is None or variant.config.endpoint is not None:
        return
    where = f"variants.{variant.name}: {_SKIPPED}:"
    words = re.split(r"[\s,]+", given) if isinstance(given, str) else []
    if len(words) > 1:
        raise PlanError(f"{where} {given!r} is one word to vLLM, which then skips no layer; use: [{', '.join(words)}]")
    architecture = _architecture(model)
    if architecture is None:
        return
    there = {str(layer.position) for layer in architecture.attention}
    there |= {"sliding_window"} if any(layer.span == "sliding" for layer in architecture.attention) else set()
    for name in map(str, given if isinstance(given, list) else [given]):
        if name not in there:
            names = " ".join(sorted(there, key=lambda one: (not one.isdigit(), len(one), one)))
            raise PlanError(f"{where} {name} is no layer of this model with K and V; use: some of {names}")


def check_logging(environment: Mapping[str, str], where: str) -> None:
    """Raises PlanError if configured variables hide what kveval reads in the server's log."""
    level = environment.get("VLLM_LOGGING_LEVEL")
    if level is not None and level.upper() not in LOG_LEVELS:
        raise PlanError(
            f"{where}: VLLM_LOGGING_LEVEL: {level!r} hides what the server does; use: {', '.join(LOG_LEVELS)}"
        )
    other = next((name for name in LOGGING[1:] if name in environment), None)
    if other is not None:
        raise PlanError(f"{where}: {other} may hide what the server does; leave it out")


def pinned_backend(flags: Mapping[str, Any]) -> str | None:
    """Returns the attention backend that flags name for all layers; None where vLLM chooses."""
    try:
        config = json.loads(str(flags.get("attention-config")))
    except ValueError:
        config = None
    named = flags.get("attention-backend") or (config.get("backend") if isinstance(config, Mapping) else None)
    return None if named is None or str(named).lower() == "auto" else str(named).upper()


def _misread(dtype: str, model: Model, device: Device) -> str | None:
    if dtype in READ_AS_E4M3.get(device.kind or "", ()):
        return f"vLLM reads a cache of {dtype!r} as fp8_e4m3 on this device ({device.kind}); use: fp8"
    if dtype == "fp8_e5m2" and has_fp8_scales(model.path):
        # `_init_kv_cache_quant` in vllm/model_executor/layers/attention/attention.py.
        return f"vLLM takes no {dtype!r} for a checkpoint that is quantized to FP8 itself; use: fp8"
    return None


def _not_stored(dtype: str, model: Model, backend: str | None, device: Device) -> str | None:
    generation = generation_of(device.architecture)
    if device.kind != "cuda" or generation is None or not is_listed(dtype, backend):
        return None
    # vLLM itself checks the heads for a backend that was named; among all of them it may find one that misreads them.
    shapes = shapes_in(model) if backend is None else set()

    def is_stored(name: str) -> bool:
        return is_stored_on(name, generation, backend) and all(
            stored_dtype(name, shape, generation) for shape in shapes
        )

    if is_stored(dtype):
        return None
    by = "no attention backend of vLLM stores" if backend is None else f"the attention backend {backend} does not store"
    instead = ", ".join(name for name, entry in CACHE_DTYPES.items() if entry.is_in_vllm and is_stored(name))
    return f"{by} {dtype!r} for this model on {generation} ({device.architecture}); use: {instead or 'another model'}"


def shapes_in(model: Model) -> set[Shape]:
    """Returns what the model's layers store of a token; empty where kveval cannot read its architecture."""
    architecture = _architecture(model)
    return set() if architecture is None else shapes_of(architecture)


def _architecture(model: Model) -> Architecture | None:
    try:
        return read_architecture(model.config, str(model.path))
    except UsageError:
        return None
