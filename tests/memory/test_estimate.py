"""Sizes of published models, each figure worked out by hand from the keys in tests/data/configs."""

from __future__ import annotations

import pytest
from support.model_configs import DENSE, published_config, published_size

from kveval.errors import UsageError
from kveval.memory.estimate import estimate
from kveval.memory.pool import EngineSettings

KIB = 1024
PER_TOKEN_HEAD = ["int8_per_token_head", "int4_per_token_head"]


@pytest.mark.parametrize(
    ("name", "cache_format", "per_token", "per_token_in_window"),
    [
        # layers x KV heads x (K + V) x head size x bytes per value
        ("llama-3.1-8b", "bf16", 32 * 8 * 2 * 128 * 2, 0),  # 128 KiB
        ("llama-3.1-8b", "fp8", 32 * 8 * 2 * 128 * 1, 0),
        # one float32 scale behind each K and each V
        ("llama-3.1-8b", "int8", 32 * 8 * 2 * (128 + 4), 0),
        ("llama-3.1-8b", "fp8_per_token_head", 32 * 8 * 2 * (128 + 4), 0),
        ("llama-3.1-8b", "int4_per_token_head", 32 * 8 * 2 * (64 + 4), 0),
        # half a byte per value, one byte of scale per 16 values
        ("llama-3.1-8b", "nvfp4", 32 * 8 * 2 * (64 + 8), 0),
        ("llama-3.3-70b", "bf16", 80 * 8 * 2 * 128 * 2, 0),  # 320 KiB
        ("llama-3.3-70b", "fp8", 80 * 8 * 2 * 128, 0),
        ("qwen3-30b-a3b", "bf16", 48 * 4 * 2 * 128 * 2, 0),  # 96 KiB
        ("qwen3-30b-a3b", "int8", 48 * 4 * 2 * (128 + 4), 0),
        # use_sliding_window is false; head size 3584 / 28 = 128
        ("qwen2.5-7b", "bf16", 28 * 4 * 2 * 128 * 2, 0),  # 56 KiB
        # every layer slides: nothing is kept beyond the window
        ("mistral-7b-v0.1", "bf16", 0, 32 * 8 * 2 * 128 * 2),
        ("phi-3-mini-4k", "bf16", 0, 32 * 32 * 2 * 96 * 2),  # multi-head; head size 3072 / 32 = 96
        # one layer in six is full: 62 = 10 x 6 + 2, so 10 full and 52 sliding
        ("gemma-3-27b", "bf16", 10 * 16 * 2 * 128 * 2, 52 * 16 * 2 * 128 * 2),
        ("gemma-3-27b", "fp8", 10 * 16 * 2 * 128, 52 * 16 * 2 * 128),
        # its config leaves out 4 KV heads of 256, its class's defaults; 34 = 5 x 6 + 4
        ("gemma-3-4b", "bf16", 5 * 4 * 2 * 256 * 2, 29 * 4 * 2 * 256 * 2),
        # every other layer slides
        ("gpt-oss-20b", "bf16", 12 * 8 * 2 * 64 * 2, 12 * 8 * 2 * 64 * 2),
        ("gpt-oss-20b", "int8", 12 * 8 * 2 * (64 + 4), 12 * 8 * 2 * (64 + 4)),
        # MLA: one vector of 512 + 64 values per token, no V
        ("deepseek-v3", "bf16", 61 * (512 + 64) * 2, 0),  # 70,272
        ("deepseek-v3", "fp8", 61 * (512 + 64), 0),
        # 512 FP8 values, 4 float32 scales, 64 bfloat16 values
        ("deepseek-v3.2", "fp8_ds_mla", 61 * (512 + 4 * 4 + 64 * 2 + 132), 0),
        ("deepseek-v3.2", "fp8", 61 * (576 + 132), 0),
        # full layers have 4 KV heads of 512, by per_layer_config; the others 16 of 256
        ("gemma-4-31b", "bf16", 10 * 2 * 4 * 512 * 2, 50 * 2 * 16 * 256 * 2),  # 81,920
        ("nemotron-3-nano", "bf16", 6 * 2 * 2 * 128 * 2, 0),  # 6,144
        ("deepseek-ocr", "bf16", 12 * 2 * 10 * 128 * 2, 0),  # 61,440
        # the key of the indexer takes 132 bytes in every format
        ("deepseek-v3.2", "bf16", 61 * (576 * 2 + 132), 0),
        # multi-query: num_kv_heads says 71 and does not count; head size 4544 / 71 = 64
        ("falcon-7b", "bf16", 32 * 1 * 2 * 64 * 2, 0),  # 8 KiB
        # multi-query by its class's default name; head size 6144 / 48 = 128
        ("starcoder", "bf16", 40 * 1 * 2 * 128 * 2, 0),  # 20 KiB
        # 9 of 48 layers are full; K has 192 values, V 128; windowed layers have 8 heads, full ones 4
        ("mimo-v2-flash", "bf16", 9 * 4 * (192 + 128) * 2, 39 * 8 * (192 + 128) * 2),  # 23,040
        ("mimo-v2-flash", "fp8", 9 * 4 * (192 + 128), 39 * 8 * (192 + 128)),
        # multi-head by other names; head size 768 / 12 = 64
        ("gpt2", "fp16", 12 * 12 * 2 * 64 * 2, 0),
        # 12 of 48 layers have attention
        ("qwen3-next-80b-a3b", "bf16", 12 * 2 * 2 * 256 * 2, 0),  # 24 KiB
        # 4 of 32
        ("jamba-v0.1", "bf16", 4 * 8 * 2 * 128 * 2, 0),
        # every fourth layer is full, the others attend within chunks of 8192
        ("llama-4-scout", "bf16", 12 * 8 * 2 * 128 * 2, 36 * 8 * 2 * 128 * 2),
    ],
)
def test_bytes_per_token(name: str, cache_format: str, per_token: int, per_token_in_window: int) -> None:
    found = published_size(name, cache_format)
    assert found.bytes_per_token == per_token
    assert found.bytes_per_token_in_span == per_token_in_window


@pytest.mark.parametrize(
    ("name", "length", "sequence_bytes"),
    [
        # 4096 tokens are 256 blocks of 16
        ("llama-3.1-8b", 4096, 256 * 16 * 128 * KIB),  # 512 MiB
        ("llama-3.1-8b", 131072, 8192 * 16 * 128 * KIB),  # 16 GiB
        ("llama-3.1-8b", 4097, 257 * 16 * 128 * KIB),
        ("deepseek-v3", 131072, 8192 * 16 * 70272),
        # a window of 4096 touches at most 257 blocks, whatever the length
        ("mistral-7b-v0.1", 4096, 256 * 16 * 128 * KIB),
        ("mistral-7b-v0.1", 32768, 257 * 16 * 128 * KIB),
        # 7 groups of 10 layers, 1 of them full: 256 + 6 x (64 + 1) blocks; 52 sliding layers fill 6 groups of at most 9
        ("gemma-3-27b", 4096, (256 + 6 * 65) * 16 * 10 * 16 * 2 * 128 * 2),
        # 2 groups of 12: 8192 + (8 + 1) blocks
        ("gpt-oss-20b", 131072, (8192 + 9) * 16 * 12 * 8 * 2 * 64 * 2),
        # 4 groups of 12, 3 of them linear with 2 blocks each: ceil(32768 / 544) = 61
        ("qwen3-next-80b-a3b", 32768, (61 + 3 * 2) * 544 * 12 * 2 * 2 * 256 * 2),
        # 4 groups of 12, 3 of them chunked: a chunk of 8192 is 513 blocks with the token being computed
        ("llama-4-scout", 131072, (8192 + 3 * 513) * 16 * 12 * 8 * 2 * 128 * 2),
    ],
)
def test_bytes_per_sequence(name: str, length: int, sequence_bytes: int) -> None:
    assert published_size(name, "bf16", length).lengths[0].sequence_bytes == sequence_bytes


def test_formats_and_lengths_by_default() -> None:
    document = estimate(DENSE, "config.json", window=40960)
    assert [row.format for row in document.formats] == [
        "bfloat16", "fp8", "int8_per_token_head", "int4_per_token_head", "nvfp4",
    ]  # fmt: skip
    assert [row.context_length for row in document.formats[0].lengths] == [4096, 32768, 40960]
    odd = estimate({**DENSE, "head_dim": 72}, "config.json", window=None)
    assert "nvfp4" not in [row.format for row in odd.formats]
    assert [row.context_length for row in odd.formats[0].lengths] == [4096, 32768, 131072]


def test_invalid_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="--lengths: 8193 is beyond the model's window; use up to 8192"):
        estimate(DENSE, "config.json", window=8192, lengths=[8193])
    with pytest.raises(UsageError, match="--lengths: none given"):
        estimate(DENSE, "config.json", window=8192, lengths=[])


def test_fp8_of_sparse_attention_has_another_layout_on_some_devices() -> None:
    any_gpu = published_size("deepseek-v3.2", "fp8")
    assert any_gpu.devices == ("blackwell",)
    other = any_gpu.other_storage[0]
    assert (other.stored_as, other.devices, other.bytes_per_token) == (
        "fp8_ds_mla", ("hopper", "blackwell-rtx"), 61 * (656 + 132),
    )  # fmt: skip
    on_hopper = estimate(
        published_config("deepseek-v3.2"), "c", window=None, settings=EngineSettings("hopper"), formats=["fp8"]
    ).formats[0]
    assert (on_hopper.format, on_hopper.stored_as, on_hopper.bytes_per_token) == ("fp8", "fp8_ds_mla", 48_068)


@pytest.mark.parametrize(
    ("name", "device", "formats"),
    [
        ("kimi-k2", "gpu", ["bfloat16", "fp8"]),
        ("deepseek-v3", "hopper", ["bfloat16", "fp8"]),
        ("deepseek-v3", "ampere", ["bfloat16"]),
        ("deepseek-v3.2", "gpu", ["bfloat16", "fp8", "fp8_ds_mla"]),
        ("llama-3.1-8b", "gpu", ["bfloat16", "fp8", *PER_TOKEN_HEAD, "nvfp4"]),
        ("llama-3.1-8b", "cpu", ["bfloat16", "fp8"]),
        # Heads of 96 values: no backend stores them in nvfp4.
        ("phi-3-mini-4k", "gpu", ["bfloat16", "fp8", *PER_TOKEN_HEAD]),
        ("phi-3-mini-4k", "ampere", ["bfloat16", *PER_TOKEN_HEAD]),
        ("mimo-v2-flash", "gpu", ["bfloat16", "fp8"]),
    ],
)
def test_formats_shown_unasked_are_those_of_the_devices_backends(name: str, device: str, formats: list[str]) -> None:
    sizes = estimate(published_config(name), name, window=None, settings=EngineSettings(device))
    assert [row.format for row in sizes.formats] == formats


def test_a_model_that_no_backend_takes_is_refused() -> None:
    with pytest.raises(UsageError, match="--device: no attention backend of vLLM takes this model on ampere; use"):
        estimate(published_config("deepseek-v3.2"), "c", window=None, settings=EngineSettings("ampere"))
