"""Run by test_measured.py: the block pool vLLM's own allocator makes for published configurations.

Layers come from transformers' configuration classes and vLLM's cache specs, not from kveval. Reads cases as JSON on
standard input; the last line of standard output is [[blocks, capacity in tokens], ...].
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any
from unittest.mock import MagicMock

import torch
from transformers import AutoConfig
from vllm.model_executor.layers.attention.mla_attention import MLACommonBackend
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    get_kv_quant_mode,
)
from vllm.v1.kv_cache_layout import KVCacheLayout

ALWAYS_SLIDING = ("mistral", "phi3")


def state(text: Any) -> MambaSpec:
    if text.model_type == "jamba":
        shapes = MambaStateShapeCalculator.mamba1_state_shape(
            1, text.mamba_expand * text.hidden_size, text.mamba_d_state, text.mamba_d_conv
        )
    else:
        shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(
            1, text.linear_num_key_heads, text.linear_num_value_heads, text.linear_key_head_dim,
            text.linear_value_head_dim, text.linear_conv_kernel_dim,
        )  # fmt: skip
    recurrent = torch.float32 if getattr(text, "mamba_ssm_dtype", None) == "float32" else torch.bfloat16
    return MambaSpec(block_size=1, shapes=tuple(shapes), dtypes=(torch.bfloat16, recurrent), mamba_cache_mode="align")


def specs(config: dict[str, Any], cache_format: str, block_size: int) -> dict[str, KVCacheSpec]:
    text = AutoConfig.for_model(**config).get_text_config()
    layers = text.num_hidden_layers
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * layers
    if text.model_type in ALWAYS_SLIDING:
        kinds = ["sliding_attention"] * layers
    if getattr(text, "hybrid_layer_pattern", None):
        kinds = ["sliding_attention" if one else "full_attention" for one in text.hybrid_layer_pattern]
    shape: dict[str, Any] = {
        "dtype": torch.bfloat16 if cache_format == "bfloat16" else torch.uint8,
        "kv_quant_mode": get_kv_quant_mode(cache_format),
    }

    def heads(layer: Any) -> dict[str, int]:
        count = 1 if text.model_type == "falcon" else getattr(layer, "num_key_value_heads", None)
        return {
            "num_kv_heads": count or layer.num_attention_heads,
            "head_size": getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads,
        }

    varies = getattr(text, "is_heterogeneous", False)
    if not varies:
        shape |= heads(text)

    def attention(cls: type, **span: int) -> KVCacheSpec:
        return TritonAttentionBackend.customize_spec(cls(block_size=block_size, **{**shape, **span}))

    windowed: dict[str, int] = {}
    if text.model_type == "mimo_v2_flash":
        shape["head_size_v"] = text.v_head_dim
        windowed["num_kv_heads"] = text.swa_num_key_value_heads
    padded = None
    if "linear_attention" in kinds:
        token = TritonAttentionBackend.customize_spec(FullAttentionSpec(block_size=1, **shape)).page_size_bytes
        block_size = max(block_size, 16 * math.ceil(state(text).page_size_bytes / (16 * token)))
        padded = block_size * token
    made: dict[str, KVCacheSpec] = {}
    for i, kind in enumerate(kinds):
        if varies:
            shape |= heads(text.per_layer_config[i])
        if getattr(text, "kv_lora_rank", None):
            latent = {**shape, "num_kv_heads": 1, "head_size": text.kv_lora_rank + text.qk_rope_head_dim}
            made[f"{i}"] = MLACommonBackend.customize_spec(MLAAttentionSpec(block_size=block_size, **latent))
        elif kind == "sliding_attention":
            made[f"{i}"] = attention(SlidingWindowSpec, sliding_window=text.sliding_window, **windowed)
        elif kind == "chunked_attention":
            made[f"{i}"] = attention(ChunkedLocalAttentionSpec, attention_chunk_size=text.attention_chunk_size)
        elif kind == "linear_attention":
            one = state(text)
            made[f"{i}"] = MambaSpec(
                block_size=block_size, shapes=one.shapes, dtypes=one.dtypes, page_size_padded=padded,
                mamba_cache_mode="align",
            )  # fmt: skip
        else:
            made[f"{i}"] = attention(FullAttentionSpec)
    return made


def pool(case: dict[str, Any], given: dict[str, Any]) -> list[int]:
    vllm_config = MagicMock()
    vllm_config.model_config.max_model_len = case["length"]
    vllm_config.max_in_flight_tokens = given["in_flight_tokens"]
    vllm_config.parallel_config.decode_context_parallel_size = 1
    vllm_config.cache_config.num_gpu_blocks_override = None
    vllm_config.cache_config.mamba_cache_mode = "align"
    vllm_config.cache_config.get_resolved_kv_cache_layout.return_value = KVCacheLayout.LBNHC
    vllm_config.speculative_config = None
    vllm_config.attention_config.hisparse_config = None
    vllm_config.scheduler_config.disable_hybrid_kv_cache_manager = False
    groups = kv_cache_utils.get_kv_cache_groups(vllm_config, specs(case["config"], case["format"], given["block_size"]))
    made = kv_cache_utils.get_kv_cache_config_from_groups(vllm_config, groups, given["cache_bytes"])
    return [made.num_blocks, kv_cache_utils.get_kv_cache_capacity(vllm_config, made)[0]]


def main() -> None:
    given = json.load(sys.stdin)
    print(json.dumps([pool(case, given) for case in given["cases"]]))


if __name__ == "__main__":
    main()
