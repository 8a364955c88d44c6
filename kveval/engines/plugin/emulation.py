"""Emulates a cache format inside vLLM: rounds K and V to it just before they are stored.

vLLM calls :func:`register` in each of its processes (entry point group ``vllm.general_plugins``). It acts only when
the environment holds an :class:`EmulationSpec`, and imports nothing heavy otherwise. The cache keeps its own dtype, so
this saves no memory. Attention reads the numbers of the emulated format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from kveval.config.emulation import EmulationConfig
from kveval.config.messages import explain
from kveval.errors import ConfigError

ENVIRONMENT_VARIABLE = "KVEVAL_EMULATE"
LOG_PREFIX = "kveval emulation: "
EMULATED_BACKENDS = (
    "CPU_ATTN", "FLASH_ATTN", "TRITON_ATTN", "FLASHINFER", "FLEX_ATTENTION",
    # Of models that take images, on Hopper and on Blackwell.
    "TRITON_FLASH_ATTN", "TRITON_FLASHINFER",
    "ROCM_AITER_UNIFIED_ATTN",
)  # fmt: skip
"""Backends whose attention reads K and V from the cache only, in prefill too, and store them apart from reading them.

Read from vLLM 0.32. ROCM_ATTN and ROCM_AITER_FA attend to a prefill chunk before it is stored: emulation would not
round what a prompt's own chunk reads. No backend for latent (MLA) caches stores K and V.
"""


SPLITS_TOKENS = ("data_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size")
"""Settings of vLLM by which the tokens of a sweep are divided among engines or ranks."""


class EmulationSpec(EmulationConfig):
    """What to round K and V to, and in which layers, as the engine's processes get it."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> EmulationSpec | None:
        """Return the spec in the environment, None without one. Raises ConfigError: the variable holds no spec."""
        text = environ.get(ENVIRONMENT_VARIABLE)
        if text is None:
            return None
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(f"{ENVIRONMENT_VARIABLE}={text!r}: {explain(error, cls)}") from None

    def to_env(self) -> dict[str, str]:
        return {ENVIRONMENT_VARIABLE: json.dumps(self.model_dump(mode="json"), sort_keys=True)}

    def label(self) -> str:
        """Describe the spec for people: ``int8 per_token_head (emulated)``."""
        layers = "" if self.layers is None else f", {self.layers_text()}"
        return f"{self.rounding_text()} (emulated{layers})"

    def selects(self, layer: int) -> bool:
        return self.layers is None or layer in self.layers

    def rounding_text(self) -> str:
        """Describe the rounding alone: ``int8 per_tensor at scale 0.5``."""
        at_scale = "" if self.scale is None else f" at scale {self.scale!r}"
        return f"{self.format} {self.granularity}{at_scale}"

    def layers_text(self) -> str:
        """Describe the layers alone: ``layers 0 3``."""
        return "all layers" if self.layers is None else "layers " + " ".join(map(str, self.layers))


def register() -> None:
    """Replace vLLM's attention backends by backends that round K and V first. Does nothing without the variable.

    Raises:
        ConfigError: the variable is set but is not a valid spec; the engine does not start.
    """
    if ENVIRONMENT_VARIABLE not in os.environ:
        return
    from vllm.logger import init_logger
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    # Only loggers below "vllm" reach the engine's log.
    logger = init_logger("vllm.kveval")
    try:
        spec = EmulationSpec.from_env()
    except ConfigError as error:
        logger.error(refused_line(str(error)))
        raise
    if spec is None:
        return
    for name in EMULATED_BACKENDS:
        register_backend(AttentionBackendEnum[name], f"kveval.engines.plugin.attention.{name}")
    logger.info(requested_line(spec))


@dataclass(frozen=True)
class EmulationFacts:
    """What the log of an engine says about emulation.

    Attributes:
        requested: the spec that the engine announced; None when the plugin was not active.
        relative_error_k: ``sum |x - rounded| / sum |x|`` of K in the first real write that was rounded. The smallest
            one where several worker processes report; None when nothing was rounded yet.
        relative_error_v: the same for V.
        rounded_layers: layers whose K and V were rounded in the first step; None until it is over.
        unrounded_layers: layers that should have been rounded and were not.
    """

    requested: EmulationSpec | None = None
    relative_error_k: float | None = None
    relative_error_v: float | None = None
    rounded_layers: tuple[int, ...] | None = None
    unrounded_layers: tuple[int, ...] | None = None

    @property
    def is_live(self) -> bool:
        """Whether rounding changed both K and V of a real request."""
        return (self.relative_error_k or 0.0) > 0.0 and (self.relative_error_v or 0.0) > 0.0


def requested_line(spec: EmulationSpec) -> str:
    return f"{LOG_PREFIX}rounding K and V to {spec.rounding_text()}, {spec.layers_text()}"


def refused_line(reason: str) -> str:
    return f"{LOG_PREFIX}refused, {' '.join(reason.split())}"


def live_line(layer: int, tokens: int, relative_error_k: float, relative_error_v: float) -> str:
    return (
        f"{LOG_PREFIX}live, layer {layer}, {tokens} tokens, "
        f"relative error K {relative_error_k:.3e} V {relative_error_v:.3e}"
    )


def not_calibrated(spec: EmulationConfig, setting: str) -> str:
    return (
        f"{spec.format} {spec.granularity} takes its scales from the first request, and {setting} divides requests "
        "among engines or ranks, which would take different ones; use per_token_head, or a fixed scale"
    )


def coverage_line(rounded: Iterable[int], kept: Iterable[int], not_rounded: Iterable[int]) -> str:
    """Says what the first step did with each layer: `not_rounded` are those that emulation does not reach."""
    return (
        f"{LOG_PREFIX}first step, rounded layers {_listed(rounded)}; kept {_listed(kept)}; "
        f"not reached {_listed(not_rounded)}"
    )


def _listed(layers: Iterable[int]) -> str:
    return " ".join(map(str, sorted(layers))) or "none"


_REQUESTED = re.compile(
    LOG_PREFIX + r"rounding K and V to (?P<format>\S+) (?P<granularity>[^\s,]+)"
    r"(?: at scale (?P<scale>[^\s,]+))?, (?:all layers|layers (?P<layers>\d+(?: \d+)*))"
)
_COVERAGE = re.compile(
    LOG_PREFIX + r"first step, rounded layers ([\d ]+|none); kept (?:[\d ]+|none); not reached ([\d ]+|none)"
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
    steps = [(_numbers(rounded), _numbers(not_reached)) for rounded, not_reached in _COVERAGE.findall(text)]
    rounded = {layer for done, _ in steps for layer in done}
    wanted = {layer for _, not_reached in steps for layer in not_reached}
    if requested is not None and requested.layers is not None:
        wanted = set(requested.layers)
    return EmulationFacts(
        requested=requested,
        relative_error_k=min((k for k, _ in errors), default=None),
        relative_error_v=min((v for _, v in errors), default=None),
        rounded_layers=tuple(sorted(rounded)) if steps else None,
        unrounded_layers=tuple(sorted(wanted - rounded)) if steps else None,
    )


def _numbers(listed: str) -> set[int]:
    return set() if listed == "none" else {int(one) for one in listed.split()}
