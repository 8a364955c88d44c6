"""Reads what a config says of single layers, where they differ from the rest of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kveval.memory.keys import Keys

# The parts of a layer that "skip" may leave out without a change of its cache.
_WITHOUT_CACHE = ("mlp", "moe", "feed_forward", "ffn", "post_attention_layernorm", "pre_feedforward_layernorm")
# Of a block's attention in block_configs, what decides its cache and is read here.
_BLOCK_KEYS = ("no_op", "replace_with_linear", "n_heads_in_group")
_PER_LAYER_HEADS = ("num_key_value_heads_per_layer", "num_kv_heads_per_layer", "head_dim_per_layer")


@dataclass(frozen=True, slots=True)
class Override:
    """How one layer differs.

    Attributes:
        keys: those of this layer; None where it has no attention.
    """

    keys: Keys | None


def overrides(keys: Keys, layers: int) -> Mapping[int, Override]:
    """Return the layers that differ, by their number from 0.

    transformers writes ``per_layer_config`` for any model whose layers differ
    (transformers/integrations/heterogeneity/configuration_utils.py). Nemotron's pruned models have ``block_configs``
    (vllm/model_executor/models/nemotron_nas.py).

    Raises:
        ConfigError: a layer that there is not, or a difference that this module cannot size.
    """
    for key in _PER_LAYER_HEADS:
        if keys.get(key):
            raise keys.error(key, "heads that differ from layer to layer in a list cannot be sized")
    if keys.get("block_configs"):
        return _of_blocks(keys, layers)
    changed = keys.get("per_layer_config")
    if not changed:
        return {}
    if not isinstance(changed, dict) or not all(isinstance(one, dict) for one in changed.values()):
        raise keys.error("per_layer_config", "cannot be used; use keys of the config for each layer number")
    found = {}
    for name, changes in changed.items():
        if not name.isascii() or not name.isdigit() or int(name) >= layers:
            raise keys.error("per_layer_config", f"{name[:20]!r} is not a layer; use: 0 to {layers - 1}")
        found[int(name)] = _of_layer(keys, f"per_layer_config: {name}", changes)
    return found


def _of_layer(keys: Keys, where: str, changes: Mapping[str, Any]) -> Override:
    layer = keys.changed(where, changes)
    skipped = layer.names("skip") or []
    attention = [name for name in skipped if name not in _WITHOUT_CACHE]
    if any("attn" not in name and "attention" not in name for name in attention):
        raise layer.error("skip", f"{attention[0]!r} is not a known part of a layer, so its cache cannot be sized")
    return Override(None if attention else layer)


def _of_blocks(keys: Keys, layers: int) -> Mapping[int, Override]:
    blocks = keys.text["block_configs"]
    if not isinstance(blocks, list) or len(blocks) != layers:
        raise keys.error("block_configs", f"cannot be used; use a list of {layers} layers")
    return {number: _of_block(keys, number, block) for number, block in enumerate(blocks)}


def _of_block(keys: Keys, number: int, block: Any) -> Override:
    where = f"block_configs: {number}"
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        raise keys.error(where, "means a special cache layout, which this cannot size")
    inner = keys.changed(f"{where}: attention", attention)
    unread = next((key for key, value in attention.items() if value and key not in _BLOCK_KEYS), None)
    if unread:
        raise inner.error(unread, "means a special cache layout, which this cannot size")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return Override(None)
    heads, group = keys.required("num_attention_heads"), inner.required("n_heads_in_group")
    if heads % group:
        raise inner.error("n_heads_in_group", f"{group} does not divide {heads} attention heads; use a divisor")
    return Override(keys.changed(where, {"num_key_value_heads": heads // group}))
