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
        refused: why the engine refused to emulate; None when it did not refuse.
        tokens: of the first real write that was rounded; None when nothing was rounded yet.
        relative_error_k: ``sum |x - rounded| / sum |x|`` of K in that write, in the first rounded layer. The smallest
            one where several worker processes report.
        relative_error_v: the same for V.
        rounded_layers: layers that one worker process rounded in the first step; None until the second step.
        kept_layers: layers that it left as they are.
    """

    requested: EmulationSpec | None = None
    refused: str | None = None
    tokens: int | None = None
    relative_error_k: float | None = None
    relative_error_v: float | None = None
    rounded_layers: int | None = None
    kept_layers: int | None = None

    @property
    def is_live(self) -> bool:
        """Whether rounding changed both K and V of a real request."""
        return (self.relative_error_k or 0.0) > 0.0 and (self.relative_error_v or 0.0) > 0.0


def requested_line(spec: EmulationSpec) -> str:
    """Return the line that announces `spec`."""
    return f"{LOG_PREFIX}rounding K and V to {spec.rounding_text()}, {spec.layers_text()}"


def refused_line(reason: str) -> str:
    """Return the line that says why nothing is emulated."""
    return f"{LOG_PREFIX}refused, {' '.join(reason.split())}"


def live_line(layer: int, tokens: int, relative_error_k: float, relative_error_v: float) -> str:
    """Return the line that shows the first rounded write."""
    return (
        f"{LOG_PREFIX}live, layer {layer}, {tokens} tokens, "
        f"relative error K {relative_error_k:.3e} V {relative_error_v:.3e}"
    )


def coverage_line(rounded_layers: int, kept_layers: int) -> str:
    """Return the line that counts the layers of the first step."""
    return f"{LOG_PREFIX}first step rounded {rounded_layers} layers, kept {kept_layers}"


_REQUESTED = re.compile(
    LOG_PREFIX + r"rounding K and V to (?P<format>\S+) (?P<granularity>[^\s,]+)"
    r"(?: at scale (?P<scale>[^\s,]+))?, (?:all layers|layers (?P<layers>\d+(?: \d+)*))"
)
_REFUSED = re.compile(LOG_PREFIX + r"refused, (.+)")
_LIVE = re.compile(LOG_PREFIX + r"live, layer \d+, (\d+) tokens, relative error K (\S+) V (\S+)")
_COVERAGE = re.compile(LOG_PREFIX + r"first step rounded (\d+) layers, kept (\d+)")


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
    refused = _REFUSED.search(text)
    live = [(int(tokens), float(k), float(v)) for tokens, k, v in _LIVE.findall(text)]
    coverage = [(int(rounded), int(kept)) for rounded, kept in _COVERAGE.findall(text)]
    return EmulationFacts(
        requested=requested,
        refused=refused[1] if refused else None,
        tokens=min((tokens for tokens, _, _ in live), default=None),
        relative_error_k=min((k for _, k, _ in live), default=None),
        relative_error_v=min((v for _, _, v in live), default=None),
        rounded_layers=min((rounded for rounded, _ in coverage), default=None),
        kept_layers=max((kept for _, kept in coverage), default=None),
    )
