"""What emulation needs of every launch of a sweep, checked before the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kveval.engines.variants import Device, ResolvedVariant
from kveval.errors import PlanError
from kveval.run.facts import Finding


def eager_for(variants: Sequence[ResolvedVariant], device: Device) -> ResolvedVariant | None:
    """Returns the variant for whose emulation every server runs without graphs. None if they may have graphs.

    A CUDA graph replays the write to the cache without the rounding. If only some variants ran without graphs, format
    and execution would change together.
    """
    return next((one for one in variants if one.emulate is not None), None) if device.kind != "cpu" else None


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
