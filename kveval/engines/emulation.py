"""What emulation needs of every launch of a sweep, checked before the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kveval.engines.base import Installation
from kveval.engines.plugin.emulation import EMULATED_BACKENDS, SPLITS_TOKENS, not_calibrated
from kveval.engines.variants import Device, ResolvedVariant
from kveval.engines.vllm.limits import pinned_backend
from kveval.errors import PlanError, UsageError
from kveval.memory.architecture import read_architecture
from kveval.models.checkpoint import Model
from kveval.run.facts import Finding


def eager_for(variants: Sequence[ResolvedVariant], device: Device) -> ResolvedVariant | None:
    """Returns the variant for whose emulation every server runs without graphs. None if they may have graphs.

    A CUDA graph replays the write to the cache without the rounding. If only some variants ran without graphs, format
    and execution would change together.
    """
    return next((one for one in variants if one.emulate is not None), None) if device.kind != "cpu" else None


def check_emulated(
    variant: ResolvedVariant, model: Model, installation: Installation, flags: Mapping[str, Any]
) -> None:
    """Raises PlanError if this variant's emulation would not round what it is meant to round.

    Args:
        flags: the configured flags of the variant.
    """
    if variant.emulate is None:
        return
    where = f"variants.{variant.name}"
    if not installation.has_emulation:
        raise PlanError(
            f"{where}: emulation needs kveval's plugin in the engine's environment; "
            "install kveval there (`pip install --no-deps kveval`)"
        )
    backend = pinned_backend(flags)
    if backend is None and installation.device.kind == "rocm":
        # `_get_backend_priorities` in vllm/platforms/rocm.py.
        backend = "ROCM_ATTN"
    if backend is not None and backend not in EMULATED_BACKENDS:
        raise PlanError(
            f"{where}: kveval cannot round what the attention backend {backend} reads; use: attention-backend "
            "TRITON_ATTN in engine.args, for every variant"
        )
    for setting in SPLITS_TOKENS if variant.emulate.is_calibrated else ():
        if flags.get(setting.replace("_", "-"), 1) not in (1, "1"):
            raise PlanError(f"{where}.emulate: {not_calibrated(variant.emulate, setting.replace('_', '-'))}")
    _check_layers(f"{where}.emulate", variant.emulate.layers, model)


def _check_layers(where: str, layers: Sequence[int] | None, model: Model) -> None:
    """Checks that the model stores K and V, in each of `layers`."""
    count = model.text_config.get("num_hidden_layers")
    if layers and isinstance(count, int) and max(layers) >= count:
        raise PlanError(f"{where}.layers: {max(layers)} is not a layer of the model; use: 0 to {count - 1}")
    try:
        architecture = read_architecture(model.config, str(model.path))
    except UsageError:
        return
    if architecture.is_latent:
        raise PlanError(
            f"{where}: the model stores latent (MLA) vectors, and kveval rounds K and V only; use: a cache dtype that "
            "vLLM stores natively"
        )
    stored = {layer.position for layer in architecture.attention}
    without = [layer for layer in layers or () if layer not in stored]
    if without:
        has = " ".join(map(str, sorted(layer for layer in stored if layer is not None)))
        raise PlanError(f"{where}.layers: layer {without[0]} stores no K and V of its own; use: some of {has}")


def check_eager(variants: Sequence[ResolvedVariant], device: Device, flags: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises PlanError if a variant asks for graphs although another variant is emulated.

    Args:
        flags: the configured flags of each variant, by its name.
    """
    emulated = eager_for(variants, device)
    for variant in variants if emulated else ():
        if emulated and flags[variant.name].get("enforce-eager") is False:
            raise PlanError(
                f"variants.{variant.name}: enforce-eager: false asks for graphs, and {emulated.name} is emulated, "
                "which needs every variant without graphs: a graph would skip its rounding; use: enforce-eager: true, "
                f"or leave out {emulated.of or emulated.name}'s emulation"
            )


def emulation_findings(variants: Sequence[ResolvedVariant], device: Device) -> list[Finding]:
    """Returns what a reader must know of servers that run otherwise than they would without emulation."""
    emulated = eager_for(variants, device)
    if emulated is None:
        return []
    message = (
        f"{emulated.name} is emulated, so every variant runs eager (--enforce-eager): a graph would skip the rounding. "
        "Graphs may round sums otherwise, so answers can differ from those of a server with graphs as they differ "
        "between two kernels; speeds are those of eager execution"
    )
    return [Finding.info("eager_for_emulation", message)]
