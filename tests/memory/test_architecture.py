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
        ({"block_configs": [{}]}, ["block_configs", "cannot size"]),
        ({"attn_type_list": [1]}, ["attn_type_list", "1 layers, but num_hidden_layers is 4"]),
        ({"attn_type_list": [1, 1, 2, 0]}, ["attn_type_list", "2 cannot be used", "0 or 1 per layer"]),
        ({"use_cla": True, "cla_share_factor": 2}, ["use_cla", "cannot size"]),
        ({"model_type": "plamo2", "mamba_d_state": 64}, ["mamba_d_state: not read for model_type 'plamo2'"]),
        ({"model_type": "phi4flash", "mb_per_layer": 2}, ["mb_per_layer: not read for model_type 'phi4flash'"]),
        ({"_block_types": ["recurrent", "attention"]}, ["_block_types: not read"]),
        ({"layer_group_size": 8}, ["layer_group_size: not read"]),
        ({"attn_layer_period": 6}, ["attn_layer_period: not read for model_type 'llama'"]),
        ({"model_type": "mamba", "num_key_value_heads": "left out"}, ["model_type: 'mamba' has no attention"]),
        ({"per_layer_config": {"1": {"num_key_value_heads": 4}}}, ["per_layer_config", "cannot be sized"]),
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
