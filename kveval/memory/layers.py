"""Reads which layers keep every token, a window of tokens, or a state of fixed size."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from kveval.memory.keys import Keys
from kveval.models.folder import shown

Span = Literal["full", "sliding", "chunked"]
Kind = Literal["full", "sliding", "chunked", "state", "both", "none"]

_MOST_LAYERS = 10_000

_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_LISTS = ("layer_types", "layers_block_type")
_KIND_OF_NAME: dict[str, Kind] = {
    "full_attention": "full", "attention": "full", "*": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state", "mamba": "state", "mamba2": "state", "conv": "state", "M": "state",
    "hybrid": "both",
    "moe": "none", "mlp": "none", "E": "none", "-": "none",
}  # fmt: skip

# Lists of 0 and 1: MiniMax (`get_num_layers_by_block_type`, vllm/config/model.py) and MiMo-V2 (`is_compressed_softmax`
# of vllm/model_executor/models/mimo_v2.py).
_KINDS_OF_NUMBERS: dict[str, tuple[Kind, Kind]] = {
    "attn_type_list": ("state", "full"),
    "hybrid_layer_pattern": ("full", "sliding"),
}

# Keys by which layers differ. A model with one that no rule here reads would get the size of plain attention.
_LAYOUT = re.compile(
    r"layer_types|layers?_pattern|block_type|attn_type|attention_types?$|attn_layer|attn_every|hybrid|mamba|ssm|"
    r"recurrent|^mb_per_layer|^conv_L_|linear_(attn|attention|num|key|value|conv)|layer_group_size|attention_window|"
    r"interleaved_sliding|cross_layer|kv_shar|shared_kv|share_kv|kv_reuse"
)
_NO_LAYOUT = re.compile(r"mlp|moe|ffn|^mtp|^num_kv_shared_layers$")


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """K and V of one layer, on one tensor-parallel rank.

    Attributes:
        span: full keeps every token, sliding the last `span_tokens`, chunked the current chunk of `span_tokens`.
        kv_heads: heads that this rank stores.
        head_dim: values of K per head and token; in a latent layer, of the one vector for all heads.
        head_dim_v: values of V per head and token; 0 in a latent layer.
        opaque_bytes: per token, where the layer has the same size in every cache dtype.
        position: the number of the decoder layer in the model, from 0.
    """

    span: Span
    kv_heads: int
    head_dim: int
    head_dim_v: int
    span_tokens: int | None = None
    opaque_bytes: int | None = None
    # Layers that store the same are the same to the allocator.
    position: int | None = field(default=None, compare=False)

    @property
    def is_latent(self) -> bool:
        """Whether the layer stores a latent (MLA) vector in place of K and V."""
        return self.head_dim_v == 0 and self.opaque_bytes is None


@dataclass(frozen=True, slots=True)
class StateLayer:
    """A recurrent or convolutional state, on one tensor-parallel rank.

    Attributes:
        state_bytes: per sequence of any length.
    """

    state_bytes: int


Layer = AttentionLayer | StateLayer


def layer_kinds(keys: Keys) -> list[Kind]:
    """Return the kind of each decoder layer, in order. Layers without a cache are "none", or left out at the end.

    Follows transformers' configuration classes, from which vLLM reads the window of each layer (``layer_types`` in
    transformers/models/*/configuration_*.py, vllm/engine/arg_utils.py).
    """
    kinds = _named(keys) or _patterned(keys)
    # The last layers of Gemma 3n and 4 read an earlier layer's K and V.
    shared = keys.count("num_kv_shared_layers")
    if shared >= len(kinds):
        raise keys.error("num_kv_shared_layers", f"{shared} of {len(kinds)} layers; use less than there are")
    return kinds[: len(kinds) - shared]


def layer_count(keys: Keys) -> int:
    """Return how many decoder layers there are. Raises ConfigError: the config does not say, or says too many."""
    listed = next((len(names) for key in _LISTS if (names := keys.names(key))), None)
    # Nemotron-H's class takes the length of the list, whatever num_hidden_layers says.
    if listed is not None and (keys.model_type == "nemotron_h" or keys.get(*_COUNTS) is None):
        return listed
    count = keys.required(*_COUNTS)
    if count > _MOST_LAYERS:
        raise keys.error("num_hidden_layers", f"{count} is too large; use up to {_MOST_LAYERS}")
    return count


def _named(keys: Keys) -> list[Kind] | None:
    """Read the kinds from a list of names, or from Nemotron-H's string of letters."""
    for key in _LISTS:
        names = keys.names(key)
        if names:
            return _as_many_as_layers(keys, key, [_kind(keys, key, name) for name in names])
    pattern = keys.get("hybrid_override_pattern")
    if not pattern:
        return None
    if not isinstance(pattern, str) or len(pattern) > _MOST_LAYERS:
        raise keys.error("hybrid_override_pattern", f"{shown(pattern)} cannot be used; use one letter per layer")
    return [_kind(keys, "hybrid_override_pattern", letter) for letter in pattern]


def _as_many_as_layers(keys: Keys, key: str, kinds: list[Kind]) -> list[Kind]:
    """Check that there is one kind per layer. Some models go on with the layers that only predict more tokens."""
    layers = layer_count(keys)
    if len(kinds) not in (layers, layers + keys.count("num_nextn_predict_layers")):
        raise keys.error(key, f"{len(kinds)} layers, but num_hidden_layers is {layers}")
    return kinds[:layers]


def _kind(keys: Keys, key: str, name: str) -> Kind:
    if name not in _KIND_OF_NAME:
        raise keys.error(key, f"{shown(name)} is not a known layer type; use: {', '.join(_KIND_OF_NAME)}")
    return _KIND_OF_NAME[name]


def _patterned(keys: Keys) -> list[Kind]:
    """Read the kinds from periods and indices."""
    layers = range(layer_count(keys))
    if keys.model_type == "falcon_h1":
        return ["both" for _ in layers]
    if keys.model_type == "jamba":
        period, offset = keys.required("attn_layer_period"), keys.count("attn_layer_offset")
        return ["full" if i % period == offset else "state" for i in layers]
    linear = keys.inner("linear_attn_config")
    counted_from_one = linear.indices("full_attn_layers") if linear else None
    for full in (
        keys.indices("attn_layer_indices"),
        keys.indices("full_attn_idxs"),
        counted_from_one and [i - 1 for i in counted_from_one],
    ):
        if full is not None:
            return ["full" if i in full else "state" for i in layers]
    numbered = _numbered(keys)
    if numbered:
        return numbered
    interval = keys.optional("full_attention_interval")
    if interval:
        return ["state" if (i + 1) % interval else "full" for i in layers]
    if keys.model_type == "llama4_text":
        return _llama4(keys, layers)
    unread = next((key for key, value in keys.text.items() if value and _is_layout(key)), None)
    if unread:
        raise keys.error(unread, f"not read for model_type {keys.model_type!r}: this cannot size what its layers keep")
    return _windowed(keys, layers)


def _is_layout(key: str) -> bool:
    return bool(_LAYOUT.search(key)) and not _NO_LAYOUT.search(key)


def _numbered(keys: Keys) -> list[Kind] | None:
    """Read the kinds from a list of 0 and 1."""
    for key, kinds in _KINDS_OF_NUMBERS.items():
        numbers = keys.indices(key)
        if numbers is None:
            continue
        other = next((number for number in numbers if number not in (0, 1)), None)
        if other is not None:
            raise keys.error(key, f"{other} cannot be used; use 0 or 1 per layer")
        return _as_many_as_layers(keys, key, [kinds[number] for number in numbers])
    return None


def _llama4(keys: Keys, layers: range) -> list[Kind]:
    rope = keys.indices("no_rope_layers") or [(i + 1) % keys.required("no_rope_layer_interval") for i in layers]
    if len(rope) != len(layers):
        raise keys.error("no_rope_layers", f"{len(rope)} layers, but num_hidden_layers is {len(layers)}")
    if keys.get("attention_chunk_size") is None:
        return ["full" for _ in layers]
    return ["chunked" if rotated else "full" for rotated in rope]


def _windowed(keys: Keys, layers: range) -> list[Kind]:
    if not keys.count("sliding_window") or keys.get("use_sliding_window") is False:
        return ["full" for _ in layers]
    letters = keys.get("sliding_window_pattern")
    if isinstance(letters, str) and letters:
        return ["full" if letters[i % len(letters)] == "G" else "sliding" for i in layers]
    pattern = keys.optional("sliding_window_pattern", "_sliding_window_pattern")
    if pattern:
        return ["sliding" if (i + 1) % pattern else "full" for i in layers]
    if keys.get("use_sliding_window"):
        first = keys.count("max_window_layers")
        return ["sliding" if i >= first else "full" for i in layers]
    return ["sliding" for _ in layers]
