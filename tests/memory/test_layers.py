from __future__ import annotations

from typing import Any

import pytest
from support.model_configs import layer_counts, published


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
    assert layer_counts(**changes) == expected


def test_every_layer_is_counted() -> None:
    assert published("gemma-3-27b").counts() == {"sliding": 52, "full": 10}
    assert published("llama-4-scout").counts() == {"chunked": 36, "full": 12}
    assert published("jamba-v0.1").counts() == {"state": 28, "full": 4}
    assert published("deepseek-v3").counts() == {"latent": 61}
    assert published("mimo-v2-flash").counts() == {"full": 9, "sliding": 39}
    assert published("gemma-3-270m").counts() == {"sliding": 15, "full": 3}
