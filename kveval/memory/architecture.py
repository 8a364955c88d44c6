"""Reads from a model's config what each layer stores on one tensor-parallel rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kveval.errors import UsageError
from kveval.memory.keys import Keys
from kveval.memory.layers import AttentionLayer, Kind, Layer, Span, StateLayer, layer_count, layer_kinds
from kveval.memory.overrides import overrides
from kveval.memory.states import state_bytes

# Those of `is_deepseek_mla` in vllm/transformers_utils/model_arch_config_convertor.py that this module can size.
_LATENT = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite", "glm_moe_dsa", "kimi_k2", "kimi_linear")
# Keys that mean a special cache layout. A refusal is better than a wrong size.
_NOT_SIZED = (
    "compress_ratios", "is_encoder_decoder", "rswa_window", "use_cla", "cross_attention_layers",
    "loop_num",
)  # fmt: skip
# `MambaModelArchConfigConvertor` in the same file, and other models in which every layer is recurrent.
_ATTENTION_FREE = ("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm")
_INDEXER_GROUP = 128
_INDEXER_SCALE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Architecture:
    """The layers that decide the size of a model's cache, in any cache dtype.

    Attributes:
        layers: those with a cache, in order.
    """

    model_type: str
    layers: tuple[Layer, ...]

    @property
    def attention(self) -> tuple[AttentionLayer, ...]:
        """The layers that store K and V."""
        return tuple(layer for layer in self.layers if isinstance(layer, AttentionLayer))

    @property
    def is_latent(self) -> bool:
        """Whether a layer stores a latent (MLA) vector in place of K and V."""
        return any(layer.is_latent for layer in self.attention)

    @property
    def is_sparse(self) -> bool:
        """Whether attention reads only the tokens that an indexer chooses."""
        return any(layer.opaque_bytes is not None for layer in self.attention)

    def counts(self) -> dict[str, int]:
        """Count layers by what they keep: full, latent, sliding, chunked, state, indexer."""
        counted: dict[str, int] = {}
        for layer in self.layers:
            if isinstance(layer, StateLayer):
                name = "state"
            elif layer.opaque_bytes is not None:
                name = "indexer"
            else:
                name = "latent" if layer.is_latent else layer.span
            counted[name] = counted.get(name, 0) + 1
        return counted


def read_architecture(config: Mapping[str, Any], source: str, tensor_parallel: int = 1) -> Architecture:
    """Read the layers from `config`, a parsed config.json; `source` is what errors call the file.

    Raises:
        ConfigError: a key that decides the size is missing or invalid, or means a cache that this module cannot size.
        UsageError: the heads do not divide among `tensor_parallel` ranks.
    """
    keys = Keys.of(config, source)
    for key in _NOT_SIZED:
        if keys.get(key) or config.get(key):
            raise keys.error(key, "means a special cache layout, which this cannot size")
    if keys.model_type in _ATTENTION_FREE:
        raise keys.error("model_type", f"{keys.model_type!r} has no attention: it has no KV cache to quantize")
    kinds = layer_kinds(keys)
    changed = overrides(keys, layer_count(keys))
    layers: list[Layer] = []
    for position, kind in enumerate(kinds):
        own = changed[position].keys if position in changed else keys
        if own is not None:
            layers.extend(_layers(own, kind, tensor_parallel, position))
    if not any(isinstance(layer, AttentionLayer) for layer in layers):
        raise keys.error("layer_types", "no layer has attention: there are no K and V to size")
    return Architecture(keys.model_type, tuple(layers))


def _layers(keys: Keys, kind: Kind, ranks: int, position: int) -> list[Layer]:
    if kind == "none":
        return []
    if kind == "state":
        return [StateLayer(state_bytes(keys, ranks))]
    if kind == "both":
        return [StateLayer(state_bytes(keys, ranks)), *_attention(keys, "full", ranks, position)]
    return _attention(keys, kind, ranks, position)


def _attention(keys: Keys, span: Span, ranks: int, position: int) -> list[Layer]:
    if keys.is_set("kv_lora_rank"):
        return _latent(keys, span, position)
    heads, head_dim, head_dim_v = _heads_of(keys, span)
    span_tokens = None
    if span != "full":
        span_tokens = keys.required("sliding_window" if span == "sliding" else "attention_chunk_size")
    stored = _per_rank(keys, heads, ranks)
    return [AttentionLayer(span, stored, head_dim, head_dim_v, span_tokens, position=position)]


def _heads_of(keys: Keys, span: Span) -> tuple[int, int, int]:
    """Return KV heads, size of K and size of V of the layers with this span.

    They differ by span in Gemma 4, Step 3.5 and MiMo-V2 (gemma4.py, step3p5.py and mimo_v2.py in
    vllm/model_executor/models). Gemma 4's class makes a per_layer_config of its global keys, unless it is given one
    (transformers/models/gemma4/configuration_gemma4.py).
    """
    other = keys.inner("attention_other_setting")
    if span == "full" and keys.get("global_head_dim") and keys.get("per_layer_config") is None:
        head_dim = keys.required("global_head_dim")
        heads = None if keys.get("attention_k_eq_v") is False else keys.optional("num_global_key_value_heads")
        return heads or _kv_heads(keys), head_dim, head_dim
    if span == "sliding" and keys.optional("swa_num_key_value_heads"):
        head_dim = keys.required("swa_head_dim")
        return keys.required("swa_num_key_value_heads"), head_dim, keys.optional("swa_v_head_dim") or head_dim
    if other and other.get("attention_type") == f"{span}_attention":
        head_dim = other.required("head_dim")
        return other.required("num_attention_groups"), head_dim, head_dim
    head_dim = _head_dim(keys)
    return _kv_heads(keys), head_dim, keys.optional("v_head_dim") or head_dim


def _latent(keys: Keys, span: Span, position: int) -> list[Layer]:
    """Return layers that store one compressed vector and one rotary key per token, for all heads and on every rank.

    DeepSeek-V2 (arXiv 2405.04434), section 2.1.2: d_c + d_h^R values per token and layer. Sparse attention adds the
    key of its indexer, in FP8 with one float32 scale per 128 values (``DeepseekV32IndexerCache`` in
    vllm/model_executor/models/deepseek_v2.py).
    """
    if keys.model_type not in _LATENT:
        raise keys.error(
            "model_type",
            f"{keys.model_type!r} has kv_lora_rank, but kveval cannot size its cache; use: {', '.join(_LATENT)}",
        )
    if span != "full":
        raise keys.error("layer_types", "a latent cache with a window has a special layout, which this cannot size")
    size = keys.required("kv_lora_rank") + (
        0 if keys.text.get("qk_rope_head_dim") == 0 else keys.required("qk_rope_head_dim")
    )
    layers: list[Layer] = [AttentionLayer("full", 1, size, 0, position=position)]
    index_dim = keys.optional("index_head_dim")
    if index_dim:
        if keys.get("index_topk_pattern") or (keys.optional("index_topk_freq") or 1) > 1:
            raise keys.error("index_topk_freq", "layers that share an indexer cannot be sized")
        opaque = index_dim + index_dim // _INDEXER_GROUP * _INDEXER_SCALE_BYTES
        layers.append(AttentionLayer("full", 1, index_dim, 0, opaque_bytes=opaque, position=position))
    return layers


def _kv_heads(keys: Keys) -> int:
    """Return the KV heads as vLLM counts them.

    Source: `get_total_num_kv_heads` in vllm/transformers_utils/model_arch_config_convertor.py.
    """
    nested = keys.inner("attn_config")
    if nested and nested.get("kv_n_heads"):
        return nested.required("kv_n_heads")
    if keys.get("multi_query") and not keys.get("new_decoder_architecture"):
        return 1
    names = (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups", *_HEADS,
    )  # fmt: skip
    heads, query_heads = keys.required(*names), keys.optional(*_HEADS)
    if query_heads and query_heads % heads:
        name = next(name for name in names if keys.is_set(name))
        raise keys.error(name, f"{heads} does not divide {query_heads} attention heads; use a divisor")
    return heads


_HEADS = ("num_attention_heads", "n_head", "n_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model")


def _head_dim(keys: Keys) -> int:
    explicit = keys.optional("head_dim", "attention_head_dim", "hidden_size_per_head")
    if explicit:
        return explicit
    hidden, heads = keys.required(*_HIDDEN), keys.required(*_HEADS)
    if hidden < heads:
        name = next(name for name in _HIDDEN if keys.is_set(name))
        raise keys.error(name, f"{hidden} is less than the {heads} attention heads; use head_dim, or less heads")
    return hidden // heads


def _per_rank(keys: Keys, heads: int, ranks: int) -> int:
    """Divide the heads among the ranks, or repeat them on more ranks (`get_num_kv_heads` in vllm/config/model.py)."""
    query_heads = keys.optional(*_HEADS)
    uneven = heads % ranks if heads >= ranks else ranks % heads
    if uneven or (query_heads and query_heads % ranks):
        raise UsageError(
            f"--tensor-parallel: {ranks} ranks do not divide {query_heads or heads} attention heads "
            f"and {heads} KV heads evenly; use a number that divides both, or a multiple of the KV heads"
        )
    return max(1, heads // ranks)
