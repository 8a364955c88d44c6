from __future__ import annotations

import pytest
from support.model_configs import DENSE, published, published_size

from kveval.memory.estimate import estimate


@pytest.mark.parametrize(
    ("name", "cache_format", "state_bytes", "block_tokens"),
    [
        # convolution (2 x 16 x 128 + 32 x 128) x 3 values and 32 x 128 x 128 more, 2 bytes each: 1,097,728.
        # A token takes 2048 bytes, 16 of them 32,768: 34 x 16 tokens hold a state.
        ("qwen3-next-80b-a3b", "bf16", (8192 * 3 + 32 * 128 * 128) * 2, 544),
        ("qwen3-next-80b-a3b", "fp8", (8192 * 3 + 32 * 128 * 128) * 2, 1072),  # 67 x 16
        # (2 x 16 x 128 + 48 x 128) x 3 x 2 + 48 x 128 x 128 x 4 = 3,207,168; 784 tokens is also what
        # https://docs.lmcache.ai/recipes/qwen3_5.html quotes from vLLM's log for Qwen3.6-27B.
        ("qwen3.6-27b", "bf16", 10240 * 3 * 2 + 48 * 128 * 128 * 4, 784),
        # Mamba 1: 8192 x 3 and 8192 x 16 values fit into 16 tokens of 4096 bytes five times over: 5 x 16
        ("jamba-v0.1", "bf16", 8192 * (3 + 16) * 2, 80),
    ],
)
def test_states_and_the_blocks_that_hold_them(
    name: str, cache_format: str, state_bytes: int, block_tokens: int
) -> None:
    found = published_size(name, cache_format)
    layers = published(name).counts()["state"]
    assert found.state_bytes_per_sequence == layers * state_bytes
    assert found.block_tokens == block_tokens


def test_a_linear_layer_of_minimax_keeps_a_square_per_head() -> None:
    config = {**DENSE, "head_dim": 64, "attn_type_list": [0, 0, 0, 1], "torch_dtype": "bfloat16"}
    row = estimate(config, "config.json", window=None, formats=["bf16"], lengths=[4096]).formats[0]
    assert row.bytes_per_token == 1 * 2 * 2 * 64 * 2
    assert row.state_bytes_per_sequence == 3 * 8 * 64 * 64 * 2
