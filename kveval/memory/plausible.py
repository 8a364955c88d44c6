"""Compares a config.json with the weights beside it: a config of another model gives the size of another cache."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kveval.errors import ConfigError
from kveval.memory.architecture import Architecture
from kveval.memory.layers import AttentionLayer
from kveval.models.folder import printable
from kveval.models.weights import Tensor

# Layers of the language model. Those of a vision tower or of an audio encoder have other prefixes.
_LAYER = re.compile(r"(?:(?:model|language_model|thinker)\.)*layers\.(\d{1,5})\.(.+)")
_KEYS, _LATENT = "self_attn.k_proj.weight", "self_attn.kv_a_proj_with_mqa.weight"
# Other dtypes may hold several numbers in one.
_ONE_NUMBER_EACH = ("F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")


def check_weights(architecture: Architecture, tensors: Mapping[str, Tensor], source: str) -> None:
    """Compare layers and their K with the shapes in the weight files. Other shapes are not looked at.

    Args:
        architecture: of the whole model, on one device.
        source: what errors call config.json.

    Raises:
        ConfigError: the weights have less layers, or K of another size.
    """
    layers: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        found = _LAYER.fullmatch(name)
        if found:
            layers.setdefault(int(found[1]), {})[found[2]] = tensor
    if not any(name in parts for parts in layers.values() for name in (_KEYS, _LATENT)):
        return
    for layer in architecture.attention:
        if layer.opaque_bytes is None and layer.position is not None:
            _check_layer(layer, layer.position, layers, printable(source))


def _check_layer(layer: AttentionLayer, number: int, layers: Mapping[int, Mapping[str, Tensor]], source: str) -> None:
    if number > max(layers):
        raise ConfigError(
            f"{source}: num_hidden_layers: there is a layer {number}, but the weights end with layer {max(layers)}; "
            "use the config.json of these weights"
        )
    name, keys = (_LATENT, "kv_lora_rank + qk_rope_head_dim") if layer.is_latent else (_KEYS, "KV heads x head_dim")
    tensor = layers.get(number, {}).get(name)
    if tensor is None or tensor.dtype not in _ONE_NUMBER_EACH or len(tensor.shape) != 2:
        return
    expected = layer.kv_heads * layer.head_dim
    if tensor.shape[0] != expected:
        raise ConfigError(
            f"{source}: {keys} is {expected} in layer {number}, but {name} has {tensor.shape[0]} rows there; "
            "use the config.json of these weights"
        )
