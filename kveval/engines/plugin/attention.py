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
from vllm.distributed.parallel_state import get_tp_group, model_parallel_is_initialized
from vllm.forward_context import get_forward_context, is_forward_context_available
from vllm.logger import init_logger
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.model_executor.models.utils import extract_layer_index
from vllm.platforms import current_platform
from vllm.utils.import_utils import resolve_obj_by_qualname
from vllm.v1.attention.backends.registry import AttentionBackendEnum
from vllm.v1.worker.worker_base import WorkerBase

from kveval.engines.plugin.emulation import (
    EMULATED_BACKENDS,
    ENVIRONMENT_VARIABLE,
    SPLITS_TOKENS,
    EmulationSpec,
    coverage_line,
    live_line,
    not_calibrated,
    refused_line,
)
from kveval.engines.plugin.first_step import FirstStep, after_warm_up, all_subclasses
from kveval.errors import ConfigError
from kveval.formats.granularity import Granularity
from kveval.formats.registry import is_unquantized
from kveval.formats.rounding import fake_quantize, scale_of

logger = init_logger("vllm.kveval")


_first_step = FirstStep()


class RoundsBeforeStoring:
    """Mixin put before a vLLM ``AttentionImpl``: ``do_kv_cache_update`` stores rounded K and V.

    Raises, from the constructor:
        ConfigError: the cache is already quantized, a layer does not exist, a block does not divide the head size,
            engines or ranks that see other tokens would take other scales, or on a GPU, graphs could replay the write
            without the rounding.
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
        # The worker that builds this model has been imported by now.
        after_warm_up(all_subclasses(WorkerBase), _first_step.begin)
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
        if self._spec.is_calibrated:
            parallel = config.parallel_config
            names = [name for name in SPLITS_TOKENS if getattr(parallel, name, 1) > 1]
            if names:
                raise ConfigError(not_calibrated(self._spec, names[0]))
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
        if _first_step.is_under_way:
            self._note(layer.layer_name, is_rounded, (key, stored_key), (value, stored_value), slot_mapping)
        super().do_kv_cache_update(layer, stored_key, stored_value, kv_cache, slot_mapping)  # type: ignore[misc]

    def _note(
        self,
        name: str,
        is_rounded: bool,
        keys: tuple[torch.Tensor, torch.Tensor],
        values: tuple[torch.Tensor, torch.Tensor],
        slot_mapping: torch.Tensor,
    ) -> None:
        """Log what a write of the first step shows: `keys` and `values` as they came, and as they are stored."""
        is_real = slot_mapping >= 0
        if not is_real.any():
            return
        layer = extract_layer_index(name)
        if _first_step.saw(name, layer, is_rounded=is_rounded):
            errors = [relative_error(*(x[: len(slot_mapping)][is_real] for x in pair)) for pair in (keys, values)]
            logger.info(live_line(layer, int(is_real.sum()), *errors))
        if _first_step.is_over:
            logger.info(coverage_line(_first_step.rounded, _first_step.kept, layers_not_rounded()))

    def _round(self, side: str, x: torch.Tensor, slot_mapping: torch.Tensor) -> torch.Tensor:
        spec = self._spec
        scale = self._kept_scales.get(side)
        if scale is None and spec.is_calibrated:
            real = x[: len(slot_mapping)][slot_mapping >= 0]
            if len(real) == 0:
                return x
            scale = agreed(scale_of(real, spec.format, spec.granularity), spec.granularity)
            if _first_step.has_begun:
                self._kept_scales[side] = scale
        return fake_quantize(x, spec.format, spec.granularity, scale)


def agreed(scale: torch.Tensor, granularity: str) -> torch.Tensor:
    """Return the largest scale of all tensor-parallel ranks where it spans heads, which are divided among them."""
    if Granularity.parse(granularity).kind == "per_tensor" and model_parallel_is_initialized():
        group = get_tp_group()
        if group.world_size > 1:
            torch.distributed.all_reduce(scale, torch.distributed.ReduceOp.MAX, group=group.device_group)
    return scale


def layers_not_rounded() -> set[int]:
    """Return the layers that store K and V, or a latent vector, through a backend that does not round them."""
    if not is_forward_context_available():
        return set()
    return {
        extract_layer_index(name)
        for name, layer in get_forward_context().no_compile_layers.items()
        if isinstance(layer, AttentionLayerBase)
        and not isinstance(layer, MambaBase)
        and not isinstance(getattr(layer, "impl", None), RoundsBeforeStoring)
        and getattr(layer, "attn_type", "decoder") == "decoder"
        and getattr(layer, "kv_sharing_target_layer_name", None) is None
    }


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
