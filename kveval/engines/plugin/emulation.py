"""Emulates a cache format inside vLLM: rounds K and V to it just before they are stored.

vLLM calls :func:`register` in each of its processes (entry point group ``vllm.general_plugins``). It acts only when
the environment holds an :class:`EmulationSpec`, and imports nothing heavy otherwise. The cache keeps its own dtype, so
this saves no memory. Attention reads the numbers of the emulated format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from pydantic import ValidationError

from kveval.config.emulation import EmulationConfig
from kveval.config.messages import key_of, reason_of
from kveval.errors import ConfigError

ENVIRONMENT_VARIABLE = "KVEVAL_EMULATE"
EMULATED_BACKENDS = ("CPU_ATTN", "FLASH_ATTN", "TRITON_ATTN", "FLASHINFER")


class EmulationSpec(EmulationConfig):
    """What to round K and V to, and in which layers, as the engine's processes get it."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> EmulationSpec | None:
        """Return the spec in the environment, None when the variable is absent.

        Raises:
            ConfigError: the variable is set but is not a valid spec.
        """
        text = environ.get(ENVIRONMENT_VARIABLE)
        if text is None:
            return None
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            problem = error.errors()[0]
            where = f"{key_of(problem)}: " if problem["loc"] else ""
            raise ConfigError(f"{ENVIRONMENT_VARIABLE}={text!r}: {where}{reason_of(problem)}") from None

    def to_env(self) -> dict[str, str]:
        """Return the environment variables that make a vLLM process round to this spec."""
        return {ENVIRONMENT_VARIABLE: json.dumps(self.model_dump(mode="json"), sort_keys=True)}

    def label(self) -> str:
        """Describe the spec for people: ``int8 per_token_head (emulated)``."""
        layers = "" if self.layers is None else f", {self.layers_text()}"
        return f"{self.rounding_text()} (emulated{layers})"

    def selects(self, layer: int) -> bool:
        """Whether K and V of `layer` are rounded."""
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

    from kveval.engines.plugin.emulation_log import refused_line, requested_line

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
