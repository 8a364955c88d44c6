"""vLLM attention backends whose KV cache holds rounded K and V. Only vLLM imports them, by name.

``CPU_ATTN``, ``FLASH_ATTN`` and the others of `EMULATED_BACKENDS` in this module are subclasses of vLLM's backends of
the same name. Each writes K and V of a step into the cache and then attends to the cache, in prefill and in decode
(CPU_ATTN: ``cpu_attention_with_kv_cache``). Rounding before the write therefore changes every attention read as a
quantized cache does. Tested on CPU. The GPU backends follow the source of vLLM 0.32: read, not run.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.logger import init_logger
from vllm.model_executor.models.utils import extract_layer_index
from vllm.platforms import current_platform
from vllm.utils.import_utils import resolve_obj_by_qualname
from vllm.v1.attention.backends.registry import AttentionBackendEnum

from kveval.engines.plugin.emulation import (
    EMULATED_BACKENDS,
    ENVIRONMENT_VARIABLE,
    EmulationSpec,
    coverage_line,
    live_line,
    refused_line,
)
from kveval.errors import ConfigError
from kveval.formats.granularity import Granularity
from kveval.formats.registry import is_unquantized
from kveval.formats.rounding import fake_quantize, scale_of

logger = init_logger("vllm.kveval")


class FirstStep:
    """The layers that wrote real tokens in this process, until one of them writes again."""

    def __init__(self) -> None:
        self.rounded: set[str] = set()
        self.kept: set[str] = set()
        self.is_over = False

    def saw(self, layer_name: str, is_rounded: bool) -> bool:
        """Note a write of a layer. Returns True for the first rounded write of this process."""
        if layer_name in self.rounded | self.kept:
            self.is_over = True
            logger.info(coverage_line(len(self.rounded), len(self.kept)))
            return False
        (self.rounded if is_rounded else self.kept).add(layer_name)
        return is_rounded and len(self.rounded) == 1


_first_step = FirstStep()


class RoundsBeforeStoring:
    """Mixin put before a vLLM ``AttentionImpl``: ``do_kv_cache_update`` stores rounded K and V.

    Raises, from the constructor:
        ConfigError: the cache is already quantized, a layer does not exist, a block does not divide the head size, or
            on a GPU, graphs could replay the write without the rounding.
    """

    head_size: int
    kv_cache_dtype: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        spec = EmulationSpec.from_env()
        if spec is None:
            raise ConfigError(f"{ENVIRONMENT_VARIABLE} disappeared after the plugin was registered")
        self._spec = spec
        self._kept_scales: dict[str, torch.Tensor | float] = {}
        if spec.scale is not None:
            self._kept_scales = {"K": spec.scale, "V": spec.scale}
        try:
            self._check_engine()
        except ConfigError as error:
            logger.error(refused_line(str(error)))
            raise

    def _check_engine(self) -> None:
        config = get_current_vllm_config()
        if not is_unquantized(self.kv_cache_dtype):
            raise ConfigError(
                f"cannot emulate {self._spec.format} on top of kv_cache_dtype {self.kv_cache_dtype!r}; use bfloat16"
            )
        num_layers = config.model_config.get_total_num_hidden_layers()
        absent = [layer for layer in self._spec.layers or () if layer >= num_layers]
        if absent:
            raise ConfigError(f"cannot emulate in layers {absent}; use layers 0 to {num_layers - 1}")
        if not current_platform.is_cpu() and not config.model_config.enforce_eager:
            raise ConfigError("emulation on a GPU needs --enforce-eager: a graph would skip the rounding")
        try:
            Granularity.parse(self._spec.granularity).check_head_size(self.head_size)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def do_kv_cache_update(
        self,
        layer: Any,
        key: torch.Tensor,
        value: torch.Tensor,
        kv_cache: torch.Tensor,
        slot_mapping: torch.Tensor,
    ) -> None:
        """Round `key` and `value`, [num_tokens, num_kv_heads, head_size], then store them as vLLM does.

        Slots below 0 are padding or warm-up. They are not stored, and count neither as evidence nor for a scale.
        """
        is_rounded = self._spec.selects(extract_layer_index(layer.layer_name))
        stored_key, stored_value = key, value
        if is_rounded:
            stored_key = self._round("K", key, slot_mapping)
            stored_value = self._round("V", value, slot_mapping)
        if not _first_step.is_over:
            is_real = slot_mapping >= 0
            if is_real.any() and _first_step.saw(layer.layer_name, is_rounded):
                num_tokens = len(slot_mapping)
                logger.info(
                    live_line(
                        extract_layer_index(layer.layer_name),
                        int(is_real.sum()),
                        relative_error(key[:num_tokens][is_real], stored_key[:num_tokens][is_real]),
                        relative_error(value[:num_tokens][is_real], stored_value[:num_tokens][is_real]),
                    )
                )
        super().do_kv_cache_update(layer, stored_key, stored_value, kv_cache, slot_mapping)  # type: ignore[misc]

    def _round(self, side: str, x: torch.Tensor, slot_mapping: torch.Tensor) -> torch.Tensor:
        spec = self._spec
        if side not in self._kept_scales and not Granularity.parse(spec.granularity).is_within_token:
            real = x[: len(slot_mapping)][slot_mapping >= 0]
            if len(real) == 0:
                return x
            self._kept_scales[side] = scale_of(real, spec.format, spec.granularity)
        return fake_quantize(x, spec.format, spec.granularity, self._kept_scales.get(side))


def relative_error(x: torch.Tensor, rounded: torch.Tensor) -> float:
    """Return ``sum |x - rounded| / sum |x|``: 0 when nothing changed, NaN when every `x` is 0."""
    return float((x.float() - rounded.float()).abs().sum() / x.float().abs().sum())


@functools.cache
def _emulated(backend: str) -> type:
    base = resolve_obj_by_qualname(AttentionBackendEnum[backend].value)

    class EmulatedImpl(RoundsBeforeStoring, base.get_impl_cls()):  # type: ignore[misc]
        pass

    class EmulatedBackend(base):  # type: ignore[valid-type, misc]
        @staticmethod
        def get_impl_cls() -> type:
            return EmulatedImpl

    # CUDA imports a backend again by the module and qualified name of its class (`_backend_cls_path` in
    # vllm/platforms/cuda.py). Other platforms import the path that was registered.
    EmulatedBackend.__qualname__ = EmulatedBackend.__name__ = backend
    return EmulatedBackend


def __getattr__(name: str) -> type:
    # vLLM imports a backend by its dotted name; importing all of them here would need CUDA.
    if name in EMULATED_BACKENDS:
        return _emulated(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
