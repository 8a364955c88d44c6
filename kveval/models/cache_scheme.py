"""Which cache format a checkpoint asks for: what vLLM stores when its cache dtype is ``auto``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kveval.errors import ConfigError
from kveval.models.config_file import language_part, read_config

_KEY = "quantization_config"
_WITH_SCALES = ("fp8", "modelopt", "quark")
_MODELOPT = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def checkpoint_cache_dtype(folder: Path) -> str | None:
    """Return the quantized cache dtype that vLLM makes of ``auto`` for this checkpoint. None if it makes none.

    Read from vLLM 0.32: `get_kv_cache_quant_algo_string` (vllm/utils/torch_utils.py), and the scheme in `Attention`
    (vllm/model_executor/layers/attention/attention.py). ModelOpt may write a file of its own.
    """
    return next(filter(None, map(_dtype, _quantization_configs(folder))), None)


def leaves_scales_unread(folder: Path) -> bool:
    """Whether vLLM loads no scales of K and V, even if the weight files have some: no quantization asks for them.

    They then stay at 1.0 (`process_weights_after_loading` of `Attention`, vllm/model_executor/layers/attention/
    attention.py). A folder without a config.json tells nothing.
    """
    if not (folder / "config.json").is_file():
        return False
    methods = [str(config.get("quant_method", "modelopt")) for config in _quantization_configs(folder)]
    return not any(method.startswith((*_WITH_SCALES, "compressed-tensors")) for method in methods)


def has_fp8_scales(folder: Path) -> bool:
    """Whether vLLM reads scales of K and V for this checkpoint, which makes it FP8 for its cache.

    Read from vLLM 0.32: the methods that return a `BaseKVCacheMethod` (`get_quant_method` of each in
    vllm/model_executor/layers/quantization). llm-compressor's checkpoints have scales only with a scheme.
    """
    methods = [str(config.get("quant_method", "")) for config in _quantization_configs(folder)]
    return any(method.startswith(_WITH_SCALES) for method in methods) or checkpoint_cache_dtype(folder) is not None


def _quantization_configs(folder: Path) -> Iterator[Mapping[str, Any]]:
    for name in ("config.json", "hf_quant_config.json"):
        try:
            config = read_config(folder / name)
        except ConfigError:
            continue
        parts = (config,) if name != "config.json" else (config.get(_KEY), language_part(config).get(_KEY))
        yield from (part for part in parts if isinstance(part, Mapping))


def _dtype(config: Mapping[str, Any]) -> str | None:
    inner = config.get("quantization")
    is_modelopt = isinstance(inner, Mapping) or str(config.get("quant_method", "")).startswith("modelopt")
    parts = [part for part in (inner, config) if isinstance(part, Mapping)]
    asked = [part[key] for key in ("kv_cache_scheme", "kv_cache_quant_algo") for part in parts if part.get(key)]
    scheme = asked[0] if asked else None
    if isinstance(scheme, str) and is_modelopt:
        return _MODELOPT.get(scheme.lower())
    if not isinstance(scheme, Mapping):
        return None
    if not is_modelopt:
        # llm-compressor's checkpoints. vLLM takes no other scheme of theirs.
        return "fp8"
    number = (scheme.get("num_bits"), scheme.get("type"))
    if number == (4, "float"):
        return "nvfp4"
    return "fp8_e4m3" if number == (8, "float") and scheme.get("dynamic") is False else None
