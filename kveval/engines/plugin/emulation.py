"""A cache format the engine lacks: K and V rounded to it inside vLLM, just before they are stored.

vLLM calls :func:`register` in every one of its processes (entry point group ``vllm.general_plugins``). It acts
only when the environment holds an :class:`EmulationSpec`, and imports nothing heavy otherwise. The cache keeps
its own dtype, so no memory is saved; the values attention reads are those of the emulated format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from kveval.config.sweep import EmulationConfig
from kveval.errors import ConfigError

ENVIRONMENT_VARIABLE = "KVEVAL_EMULATE"
LOG_PREFIX = "kveval emulation: "
EMULATED_BACKENDS = ("CPU_ATTN", "FLASH_ATTN", "TRITON_ATTN", "FLASHINFER")


class EmulationSpec(EmulationConfig):
    """What to round K and V to and in which layers, as it travels to the engine's processes."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> EmulationSpec | None:
        """The spec in the environment, None when the variable is absent.

        Raises:
            ConfigError: the variable is set but is not a valid spec.
        """
        text = environ.get(ENVIRONMENT_VARIABLE)
        if text is None:
            return None
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            reasons = "; ".join(
                ".".join(map(str, reason["loc"])) + ": " + reason["msg"] if reason["loc"] else reason["msg"]
                for reason in error.errors()
            )
            raise ConfigError(f"{ENVIRONMENT_VARIABLE}={text!r}: {reasons}") from None

    def to_env(self) -> dict[str, str]:
        """Environment variables that make a vLLM process round to this spec."""
        return {ENVIRONMENT_VARIABLE: json.dumps(self.model_dump(mode="json"), sort_keys=True)}

    def label(self) -> str:
        """For people: ``int8 per_token_head (emulated)``."""
        layers = "" if self.layers is None else f", {self._describe_layers()}"
        return f"{self._describe_rounding()} (emulated{layers})"

    def selects(self, layer: int) -> bool:
        return self.layers is None or layer in self.layers

    def _describe_rounding(self) -> str:
        at_scale = "" if self.scale is None else f" at scale {self.scale!r}"
        return f"{self.format} {self.granularity}{at_scale}"

    def _describe_layers(self) -> str:
        return "all layers" if self.layers is None else "layers " + " ".join(map(str, self.layers))


def register() -> None:
    """Replace vLLM's attention backends by ones that round K and V first. Does nothing when the variable is absent.

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
    """What an engine's log says about emulation.

    Attributes:
        requested: the spec the engine announced, None when the plugin was not loaded or not active.
        refused: why the engine refused to emulate, None when it did not.
        tokens: tokens of the first real write that was rounded, None when nothing was rounded yet.
        relative_error_k: ``sum |x - rounded| / sum |x|`` of K in that write, in the first rounded layer; the smallest
            of them where several worker processes report.
        relative_error_v: the same of V.
        rounded_layers: layers rounded in the first step, in one worker process; None until the second step.
        kept_layers: layers seen in the first step and left as they are.
    """

    requested: EmulationSpec | None = None
    refused: str | None = None
    tokens: int | None = None
    relative_error_k: float | None = None
    relative_error_v: float | None = None
    rounded_layers: int | None = None
    kept_layers: int | None = None

    @property
    def live(self) -> bool:
        """Whether rounding changed both K and V of a real request."""
        return (self.relative_error_k or 0.0) > 0.0 and (self.relative_error_v or 0.0) > 0.0


def requested_line(spec: EmulationSpec) -> str:
    return f"{LOG_PREFIX}rounding K and V to {spec._describe_rounding()}, {spec._describe_layers()}"


def refused_line(reason: str) -> str:
    return f"{LOG_PREFIX}refused, {' '.join(reason.split())}"


def live_line(layer: int, tokens: int, relative_error_k: float, relative_error_v: float) -> str:
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
_REFUSED = re.compile(LOG_PREFIX + r"refused, (.+)")
_LIVE = re.compile(LOG_PREFIX + r"live, layer \d+, (\d+) tokens, relative error K (\S+) V (\S+)")
_COVERAGE = re.compile(LOG_PREFIX + r"first step rounded (\d+) layers, kept (\d+)")


def parse_log(text: str) -> EmulationFacts:
    """What an engine's log, `text`, says about emulation; every field None when it says nothing."""
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
