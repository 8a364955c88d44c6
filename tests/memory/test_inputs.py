"""What the sizes are made from: config keys, flags, weight files; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import DATA

from kveval.errors import ConfigError, UsageError
from kveval.memory.architecture import read_architecture
from kveval.memory.budget import GIB, BudgetFlags, make_budget, parse_size, weight_bytes
from kveval.memory.estimate import Serving, default_batched_tokens, estimate

DENSE = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2,
}  # fmt: skip


def _flat(path: Path) -> set[str]:
    config = json.loads(path.read_text())
    return set(config) | set(config.get("text_config", {}))


def counts(**changes: Any) -> dict[str, int]:
    config = {key: value for key, value in {**DENSE, **changes}.items() if value != "left out"}
    return read_architecture(config, "config.json").counts()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"full": 4}),
        ({"sliding_window": None}, {"full": 4}),
        ({"sliding_window": 64}, {"sliding": 4}),
        ({"sliding_window": 64, "use_sliding_window": False}, {"full": 4}),
        ({"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3}, {"full": 3, "sliding": 1}),
        ({"sliding_window": 64, "sliding_window_pattern": 2}, {"sliding": 2, "full": 2}),
        ({"model_type": "exaone4", "sliding_window": 64, "sliding_window_pattern": "LLLG"}, {"sliding": 3, "full": 1}),
        ({"model_type": "gemma2"}, {"sliding": 2, "full": 2}),
        # A key that is null is not one that is left out: Mistral 0.2 and later have no window.
        ({"model_type": "mistral", "sliding_window": None}, {"full": 4}),
        ({"model_type": "mistral"}, {"sliding": 4}),
        ({"layer_types": ["attention", "moe", "mlp", "attention"]}, {"full": 2}),
        (
            {
                "hybrid_override_pattern": "M-M*", "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 1,
                "ssm_state_size": 16, "conv_kernel": 4,
            },
            {"state": 2, "full": 1},
        ),
        ({"attn_type_list": [1] * 4}, {"full": 4}),
        ({"attn_type_list": [0, 0, 0, 1], "head_dim": 64}, {"state": 3, "full": 1}),
        ({"sliding_window": 64, "hybrid_layer_pattern": [0, 1, 1, 0]}, {"full": 2, "sliding": 2}),
        # Keys of layers that are not there: Granite 4 micro has attention alone, Hunyuan 7B shares nothing.
        ({"layer_types": ["attention"] * 4, "mamba_d_state": 16}, {"full": 4}),
        ({"use_cla": False, "cla_share_factor": 2}, {"full": 4}),
        ({"conv_L_cache": 3, "full_attn_idxs": [1, 3]}, {"state": 2, "full": 2}),
        (
            {
                "model_type": "falcon_h1", "mamba_n_heads": 4, "mamba_d_ssm": 64, "mamba_n_groups": 1,
                "mamba_d_state": 16, "mamba_d_conv": 4,
            },
            {"state": 4, "full": 4},
        ),
        (
            {
                "model_type": "kimi_linear", "kv_lora_rank": 32, "qk_rope_head_dim": 8,
                "linear_attn_config": {
                    "full_attn_layers": [4], "num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4,
                },
            },
            {"state": 3, "latent": 1},
        ),
        (
            {"model_type": "deepseek_v32", "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128},
            {"latent": 4, "indexer": 4},
        ),
        (
            {"sliding_window": 8, "sliding_window_pattern": 2, "num_kv_shared_layers": 2},
            {"sliding": 1, "full": 1},
        ),
    ],
)  # fmt: skip
def test_layers(changes: dict[str, Any], expected: dict[str, int]) -> None:
    assert counts(**changes) == expected


def test_a_linear_layer_of_minimax_keeps_a_square_per_head() -> None:
    config = {**DENSE, "head_dim": 64, "attn_type_list": [0, 0, 0, 1], "torch_dtype": "bfloat16"}
    row = estimate(config, "config.json", window=None, formats=["bf16"], lengths=[4096])["formats"][0]
    assert row["bytes_per_token"] == 1 * 2 * 2 * 64 * 2
    assert row["state_bytes_per_sequence"] == 3 * 8 * 64 * 64 * 2


def test_step_3_5s_windowed_layers_have_heads_of_their_own() -> None:
    config = {
        **DENSE, "model_type": "step3p5", "num_key_value_heads": None, "num_attention_groups": 4, "sliding_window": 64,
        "layer_types": ["full_attention", "sliding_attention"] * 2,
        "attention_other_setting": {
            "attention_type": "sliding_attention", "num_attention_heads": 16, "num_attention_groups": 8, "head_dim": 32,
        },
    }  # fmt: skip
    row = estimate(config, "config.json", window=None, formats=["bf16"], lengths=[4096])["formats"][0]
    assert row["bytes_per_token"] == 2 * 4 * 2 * 64 * 2
    assert row["bytes_per_token_in_span"] == 2 * 8 * 2 * 32 * 2


def test_layers_with_other_heads_share_pages_by_their_tokens() -> None:
    config = {
        "model_type": "gemma4_text", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
        "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2, "sliding_window": 64,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }  # fmt: skip
    row = estimate(config, "config.json", window=None, formats=["bf16"], lengths=[4096])["formats"][0]
    # A sliding token takes 8 x 2 x 256 x 2 = 8192 bytes, a full one half of it: 32 tokens fill the other's page of 16.
    assert row["block_bytes"] == 2 * 16 * 8192
    assert row["lengths"][0]["sequence_bytes"] == (4096 // 32 + 64 // 16 + 1) * 2 * 16 * 8192


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_layers": "left out"}, ["num_hidden_layers", "required", "allowed: a positive integer"]),
        ({"hidden_size": "left out"}, ["hidden_size (or n_embd, d_model)", "required"]),
        ({"num_attention_heads": "left out"}, ["num_attention_heads (or n_head, n_heads)", "required"]),
        ({"num_key_value_heads": "two"}, ["num_key_value_heads", "'two' is not allowed", "a positive integer"]),
        ({"num_hidden_layers": 0}, ["num_hidden_layers", "0 is not allowed"]),
        ({"num_hidden_layers": True}, ["num_hidden_layers", "True is not allowed"]),
        ({"layer_types": ["full_attention"]}, ["layer_types", "1 layers, but num_hidden_layers is 4"]),
        ({"layer_types": "full"}, ["layer_types", "'full' is not allowed", "one name per layer"]),
        ({"layer_types": ["full_attention"] * 3 + ["ring"]}, ["layer_types", "'ring' is not", "sliding_attention"]),
        ({"layer_types": ["sliding_attention"] * 4}, ["sliding_window", "required"]),
        ({"layer_types": ["mamba"] * 4, "mamba_n_heads": 2, "mamba_d_ssm": 8}, ["mamba_n_groups", "required"]),
        ({"layer_types": ["mamba"] * 3 + ["attention"]}, ["linear_num_value_heads (or", "none is given"]),
        ({"layer_types": ["moe"] * 4}, ["layer_types", "no layer has attention"]),
        ({"model_type": "minicpm3", "kv_lora_rank": 32}, ["model_type", "'minicpm3' has kv_lora_rank", "deepseek_v3"]),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 32}, ["qk_rope_head_dim", "required"]),
        ({"block_configs": [{}]}, ["block_configs", "cannot size"]),
        ({"attn_type_list": [1]}, ["attn_type_list", "1 layers, but num_hidden_layers is 4"]),
        ({"attn_type_list": [1, 1, 2, 0]}, ["attn_type_list", "2 is not allowed", "0 or 1 per layer"]),
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
def test_configs_that_cannot_be_sized(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        counts(**changes)
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
def test_no_config_ends_in_anything_but_a_size_or_one_line(changes: dict[str, Any], model_type: str) -> None:
    try:
        document = estimate({**DENSE, "model_type": model_type, **changes}, "config.json", window=None)
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 80 << 30), ("80 GiB", 80 << 30), ("80gib", 80 << 30), ("80GB", 80 * 10**9), ("80G", 80 * 10**9),
        ("1.5TiB", 3 << 39), ("512MiB", 512 << 20), ("16Ki", 16 << 10),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "80", "-1GiB", "0GiB", "GiB", "80GiBs", "1e3GiB", "eighty GiB"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--memory: .* is not a size; allowed: such as 80GiB"):
        parse_size(text, "--memory")


def test_weights_are_counted_once(tmp_path: Path) -> None:
    assert weight_bytes(tmp_path) is None
    (tmp_path / "pytorch_model.bin").write_bytes(b"w" * 100)
    assert weight_bytes(tmp_path) == 100
    (tmp_path / "consolidated.safetensors").write_bytes(b"w" * 90)
    assert weight_bytes(tmp_path) == 90
    (tmp_path / "model-1.safetensors").write_bytes(b"w" * 40)
    (tmp_path / "model-2.safetensors").write_bytes(b"w" * 50)
    assert weight_bytes(tmp_path) == 90
    (tmp_path / "extra.safetensors").write_bytes(b"w" * 7)
    assert weight_bytes(tmp_path) == 97
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors", "c": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert weight_bytes(tmp_path) == 90


@pytest.mark.parametrize("index", ["[", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"a": "gone.safetensors"}}'])
def test_a_broken_index_leaves_the_files(tmp_path: Path, index: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    (tmp_path / "model.safetensors").write_bytes(b"w" * 10)
    assert weight_bytes(tmp_path) == 10


def test_budget(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"w" * 1000)
    assert make_budget(tmp_path, BudgetFlags()) is None
    budget = make_budget(tmp_path, BudgetFlags(memory="1GiB", utilization=0.5))
    assert budget is not None
    assert (budget.cache_bytes, budget.weight_bytes) == (GIB // 2 - 1000, 1000)
    shared = make_budget(tmp_path, BudgetFlags(memory="80GiB", weights="100GiB"), 4)
    assert shared is not None
    assert (shared.cache_bytes, shared.weight_bytes) == ((72 - 25) * GIB, 25 * GIB)
    given = make_budget(tmp_path, BudgetFlags(cache="2GiB"))
    assert given is not None
    assert (given.cache_bytes, given.memory_bytes) == (2 * GIB, None)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        # Without weights too, the flag that is wrong is the one named.
        (BudgetFlags(memory="80"), ["--memory: '80' is not a size"]),
        (BudgetFlags(memory="80GiB"), ["--weights: ", "has no weight files", "such as --weights 16GiB"]),
        (BudgetFlags(memory="80GiB", cache="2GiB"), ["--cache", "allowed: one of the two"]),
        (BudgetFlags(memory="80GiB", weights="16"), ["--weights: '16' is not a size"]),
        (BudgetFlags(memory="80GiB", weights="16GiB", utilization=1.1), ["--utilization: 1.1", "up to 1"]),
        (BudgetFlags(memory="80GiB", weights="16GiB", utilization=float("nan")), ["--utilization: nan"]),
        (
            BudgetFlags(memory="16GiB", weights="16GiB"),
            ["--memory: 16.00 GiB x 0.9 = 14.40 GiB", "the weights take 16.00 GiB", "more than 17.78 GiB"],
        ),
    ],
)
def test_budgets_that_cannot_be(tmp_path: Path, flags: BudgetFlags, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        make_budget(tmp_path, flags)
    for word in words:
        assert word in str(caught.value)


def test_what_the_engine_takes_by_default() -> None:
    assert default_batched_tokens("cpu", None) == 2048
    assert [default_batched_tokens("gpu", gib * GIB) for gib in (24, 80, 192)] == [2048, 8192, 16384]
    assert Serving().in_flight_tokens(None) == 2 * 8192
    assert Serving("cpu").in_flight_tokens(None) == 2048
    assert Serving("cpu", batched_tokens=512).in_flight_tokens(None) == 512
    architecture = read_architecture(DENSE, "config.json")
    assert Serving().block_tokens_of(architecture) == 16
    assert Serving("cpu").block_tokens_of(architecture) == 128
    assert Serving("cpu", 32).block_tokens_of(architecture) == 32


@pytest.mark.parametrize(
    ("serving", "word"), [({"device": "tpu"}, "--device"), ({"block_tokens": 0}, "--block-size"),
                          ({"batched_tokens": -1}, "--batched-tokens"), ({"tensor_parallel": 0}, "--tensor-parallel")],
)  # fmt: skip
def test_ways_of_serving_that_are_none(serving: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=f"{word}: .* is not allowed; allowed: "):
        Serving(**serving)


@pytest.mark.parametrize(
    ("model", "names", "words"),
    [
        (DENSE, ["fp9"], ["'fp9' is not a cache format", "did you mean 'fp8'"]),
        (DENSE, ["auto"], ["'auto' cannot be sized: it is the model's own dtype"]),
        (DENSE, [], ["--formats: none given"]),
        (DENSE, ["fp8_ds_mla"], ["made for latent (MLA) caches", "use for this model: bfloat16"]),
        ({**DENSE, "head_dim": 72}, ["nvfp4"], ["multiple of 16, not 72"]),
        (
            {**DENSE, "model_type": "deepseek_v3", "kv_lora_rank": 32, "qk_rope_head_dim": 8}, ["nvfp4"],
            ["vLLM stores no latent (MLA) cache in it"],
        ),
        (
            {**DENSE, "model_type": "deepseek_v3", "kv_lora_rank": 32, "qk_rope_head_dim": 8}, ["fp8_ds_mla"],
            ["made for 576 latent values, not 40"],
        ),
    ],
)  # fmt: skip
def test_formats_a_model_cannot_be_stored_in(model: dict[str, Any], names: list[str], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        estimate(model, "config.json", window=None, formats=names)
    for word in words:
        assert word in str(caught.value)


def test_formats_and_lengths_by_default() -> None:
    document = estimate(DENSE, "config.json", window=40960)
    assert [row["format"] for row in document["formats"]] == [
        "bfloat16", "fp8", "int8_per_token_head", "int4_per_token_head", "nvfp4",
    ]  # fmt: skip
    assert [row["context_length"] for row in document["formats"][0]["lengths"]] == [4096, 32768, 40960]
    odd = estimate({**DENSE, "head_dim": 72}, "config.json", window=None)
    assert "nvfp4" not in [row["format"] for row in odd["formats"]]
    assert [row["context_length"] for row in odd["formats"][0]["lengths"]] == [4096, 32768, 131072]


def test_lengths_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="--lengths: 8193 is beyond the model's window; allowed: up to 8192"):
        estimate(DENSE, "config.json", window=8192, lengths=[8193])
    with pytest.raises(UsageError, match="--lengths: none given"):
        estimate(DENSE, "config.json", window=8192, lengths=[])
