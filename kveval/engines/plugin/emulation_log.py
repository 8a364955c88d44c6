"""What emulation writes into the engine's log, and how kveval reads it back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kveval.engines.plugin.emulation import EmulationSpec

LOG_PREFIX = "kveval emulation: "


@dataclass(frozen=True)
class EmulationFacts:
    """What the log of an engine says about emulation.

    Attributes:
        requested: the spec that the engine announced; None when the plugin was not active.
        relative_error_k: ``sum |x - rounded| / sum |x|`` of K in the first real write that was rounded. The smallest
            one where several worker processes report; None when nothing was rounded yet.
        relative_error_v: the same for V.
    """

    requested: EmulationSpec | None = None
    relative_error_k: float | None = None
    relative_error_v: float | None = None

    @property
    def is_live(self) -> bool:
        """Whether rounding changed both K and V of a real request."""
        return (self.relative_error_k or 0.0) > 0.0 and (self.relative_error_v or 0.0) > 0.0


def requested_line(spec: EmulationSpec) -> str:
    return f"{LOG_PREFIX}rounding K and V to {spec.rounding_text()}, {spec.layers_text()}"


def refused_line(reason: str) -> str:
    return f"{LOG_PREFIX}refused, {' '.join(reason.split())}"


def live_line(layer: int, tokens: int, relative_error_k: float, relative_error_v: float) -> str:
    """Return the line that shows the first rounded write of a process."""
    return (
        f"{LOG_PREFIX}live, layer {layer}, {tokens} tokens, "
        f"relative error K {relative_error_k:.3e} V {relative_error_v:.3e}"
    )


def coverage_line(rounded_layers: int, kept_layers: int) -> str:
    return f"{LOG_PREFIX}first step rounded {rounded_layers} layers, kept {kept_layers}"


_REQUESTED = re.compile(
    LOG_PREFIX + r"rounding K and V to (?P<format>\S+) (?P<granularity>[^\s,]+)"
    r"(?: at scale (?P<scale>[^\s,]+))?, (?:all layers|layers (?P<layers>\d+(?: \d+)*))"
)
_LIVE = re.compile(LOG_PREFIX + r"live, layer \d+, \d+ tokens, relative error K (\S+) V (\S+)")


def parse_log(text: str) -> EmulationFacts:
    """Read what the log `text` says about emulation; every field is None when it says nothing."""
    requested = None
    if match := _REQUESTED.search(text):
        layers, scale = match["layers"], match["scale"]
        requested = EmulationSpec(
            format=match["format"],
            granularity=match["granularity"],
            layers=None if layers is None else tuple(int(layer) for layer in layers.split()),
            scale=None if scale is None else float(scale),
        )
    errors = [(float(k), float(v)) for k, v in _LIVE.findall(text)]
    return EmulationFacts(
        requested=requested,
        relative_error_k=min((k for k, _ in errors), default=None),
        relative_error_v=min((v for _, v in errors), default=None),
    )
