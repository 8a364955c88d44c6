from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import DATA
from support.model_configs import DENSE, layer_counts, published

from kveval.errors import ConfigError, UsageError
from kveval.memory.architecture import read_architecture
from kveval.memory.estimate import estimate
from kveval.memory.formats import parse_format, token_bytes


def _flat(path: Path) -> set[str]:
    config = json.loads(path.read_text())
    return set(config) | set(config.get("text_config", {}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_layers": "left out"}, ["num_hidden_layers", "required", "use a positive integer"]),
        ({"hidden_size": "left out"}, ["hidden_size (or n_embd, d_model)", "required"]),
        ({"num_attention_heads": "left out"}, ["num_attention_heads (or n_head, n_heads)", "required"]),
        ({"num_key_value_heads": "two"}, ["num_key_value_heads", "'two' cannot be used", "a positive integer"]),
        ({"num_hidden_layers": 0}, ["num_hidden_layers", "0 cannot be used"]),
        ({"num_hidden_layers": True}, ["num_hidden_layers", "True cannot be used"]),
        ({"layer_types": ["full_attention"]}, ["layer_types", "1 layers, but num_hidden_layers is 4"]),
        ({"layer_types": "full"}, ["layer_types", "'full' cannot be used", "one name per layer"]),
        ({"layer_types": ["full_attention"] * 3 + ["ring"]}, ["layer_types", "'ring' is not", "sliding_attention"]),
        ({"layer_types": ["sliding_attention"] * 4}, ["sliding_window", "required"]),
        ({"layer_types": ["mamba"] * 4, "mamba_n_heads": 2, "mamba_d_ssm": 8}, ["mamba_n_groups", "required"]),
        ({"layer_types": ["mamba"] * 3 + ["attention"]}, ["linear_num_value_heads (or", "give one of them"]),
        ({"layer_types": ["moe"] * 4}, ["layer_types", "no layer has attention"]),
        ({"model_type": "minicpm3", "kv_lora_rank": 32}, ["model_type", "'minicpm3' has kv_lora_rank", "deepseek_v3"]),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 32}, ["qk_rope_head_dim", "required"]),
        ({"block_configs": [{}]}, ["block_configs", "use a list of 4 layers"]),
        ({"block_configs": [{}] * 4}, ["block_configs: 0", "special cache layout"]),
        ({"block_configs": [{"attention": {"n_heads_in_group": 3}}] * 4}, ["n_heads_in_group", "3 does not divide 8"]),
        ({"block_configs": [{"attention": {"mamba": {"state": 4}}}] * 4}, ["block_configs: 0: attention: mamba"]),
        ({"attn_type_list": [1]}, ["attn_type_list", "1 layers, but num_hidden_layers is 4"]),
        ({"attn_type_list": [1, 1, 2, 0]}, ["attn_type_list", "2 cannot be used", "0 or 1 per layer"]),
        ({"use_cla": True, "cla_share_factor": 2}, ["use_cla", "cannot size"]),
        ({"model_type": "plamo2", "mamba_d_state": 64}, ["mamba_d_state: not read for model_type 'plamo2'"]),
        ({"model_type": "phi4flash", "mb_per_layer": 2}, ["mb_per_layer: not read for model_type 'phi4flash'"]),
        ({"_block_types": ["recurrent", "attention"]}, ["_block_types: not read"]),
        ({"layer_group_size": 8}, ["layer_group_size: not read"]),
        ({"attn_layer_period": 6}, ["attn_layer_period: not read for model_type 'llama'"]),
        ({"model_type": "mamba", "num_key_value_heads": "left out"}, ["model_type: 'mamba' has no attention"]),
        ({"per_layer_config": {"4": {"head_dim": 4}}}, ["per_layer_config", "'4' is not a layer; use: 0 to 3"]),
        ({"per_layer_config": {"-1": {"head_dim": 4}}}, ["per_layer_config", "'-1' is not a layer"]),
        ({"per_layer_config": [4]}, ["per_layer_config", "keys of the config for each layer"]),
        ({"per_layer_config": {"1": {"head_dim": "big"}}}, ["per_layer_config: 1: head_dim", "'big' cannot be used"]),
        ({"per_layer_config": {"1": {"skip": ["router"]}}}, ["per_layer_config: 1: skip", "'router' is not a known"]),
        ({"num_key_value_heads_per_layer": [4, 2, 2, 1]}, ["num_key_value_heads_per_layer", "cannot be sized"]),
        ({"num_key_value_heads": 16}, ["num_key_value_heads: 16 does not divide 8 attention heads", "use a divisor"]),
        ({"num_key_value_heads": 3}, ["num_key_value_heads: 3 does not divide 8 attention heads"]),
        ({"hidden_size": 4}, ["hidden_size: 4 is less than the 8 attention heads", "use head_dim"]),
        ({"num_kv_shared_layers": 4}, ["num_kv_shared_layers: 4 of 4 layers; use less"]),
        ({"num_hidden_layers": 1 << 80}, ["num_hidden_layers", "cannot be used; use a positive integer"]),
        ({"hybrid_override_pattern": ["M"]}, ["hybrid_override_pattern", "one letter per layer"]),
        ({"model_type": "\x1b[31mred", "kv_lora_rank": 8}, ["model_type: '⟨U+001B⟩[31mred' has kv_lora_rank"]),
        ({"is_encoder_decoder": True}, ["is_encoder_decoder", "cannot size"]),
    ],
)
def test_configs_that_cannot_be_sized_are_refused(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        layer_counts(**changes)
    assert str(caught.value).startswith("config.json: ")
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


NAMES = sorted(
    {key for path in (DATA / "configs").glob("*.json") for key in _flat(path)}
    | {
        "_sliding_window_pattern", "attn_config", "attn_type_list", "attn_layer_indices", "full_attn_idxs",
        "global_head_dim", "hybrid_override_pattern", "index_head_dim", "linear_attn_config", "mamba_n_heads",
        "mamba_num_heads", "multi_query", "num_kv_shared_layers", "sliding_window_pattern",
    }
)  # fmt: skip
MODEL_TYPES = ["llama", "mistral", "gemma3_text", "jamba", "qwen3_next", "llama4_text", "deepseek_v3", "kimi_linear"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=5), st.sampled_from(MODEL_TYPES))
def test_any_config_gives_a_size_or_an_error_of_one_line(changes: dict[str, Any], model_type: str) -> None:
    try:
        document = estimate({**DENSE, "model_type": model_type, **changes}, "config.json", window=None)
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        json.dumps(asdict(document), allow_nan=False)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("gemma-4-31b", {"sliding": 50, "full": 10}),
        # The count is the length of layers_block_type.
        ("nemotron-3-nano", {"state": 23, "full": 6}),
        # Heads of 0 values mean that it has no latent attention.
        ("deepseek-ocr", {"full": 12}),
        ("kimi-k2", {"latent": 61}),
        ("deepseek-v3.2", {"latent": 61, "indexer": 61}),
    ],
)
def test_layers_of_published_models(name: str, counts: dict[str, int]) -> None:
    assert published(name).counts() == counts


@pytest.mark.parametrize(
    ("changes", "heads"),
    [
        ({}, [2, 2, 2, 2]),
        ({"per_layer_config": {"01": {"num_key_value_heads": 4}, "3": {"intermediate_size": 8}}}, [2, 4, 2, 2]),
        ({"per_layer_config": {"0": {"skip": ["self_attn"]}, "1": {"skip": ["mlp"]}}}, [2, 2, 2]),
        ({"per_layer_config": {}}, [2, 2, 2, 2]),
        (
            {
                "num_key_value_heads": None,
                "block_configs": [
                    {"attention": {"no_op": False, "n_heads_in_group": 8}},
                    {"attention": {"no_op": True, "n_heads_in_group": None}},
                    {"attention": {"replace_with_linear": True}},
                    {"attention": {"n_heads_in_group": 2}},
                ],
            },
            [1, 4],
        ),
    ],
)
def test_layers_that_differ_one_by_one(changes: dict[str, Any], heads: list[int]) -> None:
    found = read_architecture({**DENSE, **changes}, "config.json").attention
    assert [layer.kv_heads for layer in found] == heads


def test_layers_that_only_predict_more_tokens_have_no_part_in_the_count() -> None:
    kinds = ["full_attention", "sliding_attention"] * 2
    named = {"layer_types": [*kinds, "sliding_attention"], "num_nextn_predict_layers": 1, "sliding_window": 8}
    assert layer_counts(**named) == {"full": 2, "sliding": 2}


@pytest.mark.parametrize("key", ["n_layer", "n_layers", "num_layers"])
def test_the_count_of_layers_has_several_names(key: str) -> None:
    assert layer_counts(num_hidden_layers="left out", **{key: 3}) == {"full": 3}


def test_the_language_model_of_an_omni_model_is_found() -> None:
    config = {"model_type": "qwen3_omni_moe", "thinker_config": {"model_type": "thinker", "text_config": DENSE}}
    assert read_architecture(config, "config.json").counts() == {"full": 4}


def test_windowed_layers_of_step_3_5_have_other_heads() -> None:
    config = {
        **DENSE, "model_type": "step3p5", "num_key_value_heads": None, "num_attention_groups": 4, "sliding_window": 64,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "attention_other_setting": {
            "attention_type": "sliding_attention", "num_attention_heads": 16, "num_attention_groups": 8, "head_dim": 32,
        },
    }  # fmt: skip
    row = estimate(config, "config.json", window=None, formats=["bf16"], lengths=[4096]).formats[0]
    assert row.bytes_per_token == 2 * 4 * 2 * 64 * 2
    assert row.bytes_per_token_in_span == 2 * 8 * 2 * 32 * 2


@pytest.mark.parametrize(
    ("name", "ranks", "per_token"),
    [
        ("llama-3.3-70b", 4, 80 * 2 * 2 * 128 * 2),  # 2 of 8 KV heads
        ("llama-3.3-70b", 16, 80 * 1 * 2 * 128 * 2),  # each KV head twice
        ("starcoder", 8, 40 * 1 * 2 * 128 * 2),  # the one KV head is on every rank
        ("deepseek-v3", 8, 61 * 576 * 2),  # the latent vector is on every rank
    ],
)
def test_ranks_share_the_heads(name: str, ranks: int, per_token: int) -> None:
    stored = parse_format("bf16")
    assert sum(token_bytes(stored, layer) for layer in published(name, ranks).attention) == per_token


@pytest.mark.parametrize("ranks", [3, 5, 12])
def test_ranks_that_do_not_divide_the_heads(ranks: int) -> None:
    with pytest.raises(UsageError, match=rf"--tensor-parallel: {ranks} ranks do not divide .*; use"):
        published("llama-3.1-8b", ranks)
