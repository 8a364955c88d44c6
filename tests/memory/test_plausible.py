from __future__ import annotations

import pytest
from support.model_configs import DENSE, published

from kveval.errors import ConfigError
from kveval.memory.architecture import read_architecture
from kveval.memory.plausible import check_weights
from kveval.models.weights import Tensor

# Two KV heads of 64.
LAYERS = read_architecture(DENSE, "config.json")


def weights(rows: int = 128, layers: int = 4, prefix: str = "model.layers", dtype: str = "BF16") -> dict[str, Tensor]:
    return {f"{prefix}.{n}.self_attn.k_proj.weight": Tensor(dtype, (rows, 512)) for n in range(layers)}


def test_weights_of_the_config_pass() -> None:
    check_weights(LAYERS, weights(), "config.json")
    check_weights(LAYERS, weights(prefix="model.language_model.layers"), "config.json")
    # A layer that predicts more tokens.
    check_weights(LAYERS, weights(layers=5), "config.json")


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        weights(64, dtype="U8"),
        weights(64, prefix="vision_tower.encoder.layers"),
        {"model.layers.0.self_attn.qkv_proj.weight": Tensor("BF16", (64, 512))},
        {"model.layers.3.self_attn.k_proj.weight": Tensor("BF16", (64,))},
    ],
)
def test_weights_that_do_not_tell_pass(tensors: dict[str, Tensor]) -> None:
    check_weights(LAYERS, tensors, "config.json")


def test_a_config_of_another_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"KV heads x head_dim is 128 in layer 0, but .*k_proj.weight has 256 rows"):
        check_weights(LAYERS, weights(256), "config.json")
    with pytest.raises(ConfigError, match="there is a layer 3, but the weights end with layer 2"):
        check_weights(LAYERS, weights(layers=3), "config.json")


def test_each_layer_is_compared() -> None:
    gemma = published("gemma-4-31b")
    full = range(5, 60, 6)
    rows = {n: 4 * 512 if n in full else 16 * 256 for n in range(60)}
    tensors = {f"model.layers.{n}.self_attn.k_proj.weight": Tensor("BF16", (size, 5376)) for n, size in rows.items()}
    check_weights(gemma, tensors, "config.json")
    tensors["model.layers.11.self_attn.k_proj.weight"] = Tensor("BF16", (16 * 256, 5376))
    with pytest.raises(ConfigError, match="2048 in layer 11"):
        check_weights(gemma, tensors, "config.json")


def test_latent_vectors_are_compared() -> None:
    name = "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight"
    tensors = {name.format(n): Tensor("F8_E4M3", (576, 7168)) for n in range(61)}
    check_weights(published("deepseek-v3"), tensors, "config.json")
    tensors[name.format(3)] = Tensor("F8_E4M3", (320, 7168))
    with pytest.raises(ConfigError, match=r"kv_lora_rank \+ qk_rope_head_dim is 576 in layer 3"):
        check_weights(published("deepseek-v3"), tensors, "config.json")
