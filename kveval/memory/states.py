"""Computes the bytes of the recurrent and convolutional states that layers without K and V keep.

Shapes: ``MambaStateShapeCalculator`` in vllm/model_executor/layers/mamba/mamba_utils.py, with each model's own
``get_mamba_state_shape_from_config``. The convolution's state has the model's dtype, the recurrent state the dtype
the config names for it (``mamba_ssm_dtype``, ``mamba_ssm_cache_dtype``), else the model's. Nemotron-H and KDA have
float32 (``MambaStateDtypeCalculator``, vllm/model_executor/models/config.py).
"""

from __future__ import annotations

from kveval.memory.keys import Keys

_FLOAT32_BYTES = 4


def state_bytes(keys: Keys, tensor_parallel: int) -> int:
    """Return the bytes of one layer's state for one sequence, on one tensor-parallel rank."""
    for marker, sizer in (
        ("linear_num_value_heads", _gated_delta_net),
        ("linear_attn_config", _kimi_delta),
        ("conv_L_cache", _short_convolution),
        ("mamba_num_heads", _nemotron),
        ("mamba_n_heads", _mamba2),
        ("mamba_d_state", _mamba1),
        ("attn_type_list", _lightning),
    ):
        if keys.get(marker) is not None:
            return sizer(keys, tensor_parallel)
    raise keys.error(
        "linear_num_value_heads (or linear_attn_config, conv_L_cache, mamba_num_heads, mamba_n_heads, mamba_d_state)",
        "required to size the state of its linear layers; give one of them",
    )


def _recurrent_bytes(keys: Keys) -> int:
    return keys.dtype_bytes("mamba_ssm_dtype", "mamba_ssm_cache_dtype")


def _gated_delta_net(keys: Keys, ranks: int) -> int:
    """Qwen3-Next, Qwen3.5: (2 k_dim k_heads + v_dim v_heads)(kernel - 1) and v_heads v_dim k_dim values."""
    k_heads, k_dim = keys.required("linear_num_key_heads"), keys.required("linear_key_head_dim")
    v_heads, v_dim = keys.required("linear_num_value_heads"), keys.required("linear_value_head_dim")
    convolved = (2 * k_dim * k_heads + v_dim * v_heads) // ranks * (keys.required("linear_conv_kernel_dim") - 1)
    return convolved * keys.dtype_bytes() + v_heads // ranks * v_dim * k_dim * _recurrent_bytes(keys)


def _kimi_delta(keys: Keys, ranks: int) -> int:
    """Kimi Linear: 3 heads dim (kernel - 1) and heads dim dim values, the latter in float32."""
    inner = keys.inner("linear_attn_config") or keys
    heads, dim = inner.required("num_heads"), inner.required("head_dim")
    convolved = 3 * heads * dim // ranks * (inner.required("short_conv_kernel_size") - 1)
    return convolved * keys.dtype_bytes() + heads // ranks * dim * dim * _FLOAT32_BYTES


def _short_convolution(keys: Keys, ranks: int) -> int:
    """LFM2: conv_dim (kernel - 1) values."""
    dim = keys.required("conv_dim", "hidden_size")
    return dim // ranks * (keys.required("conv_L_cache") - 1) * keys.dtype_bytes()


def _nemotron(keys: Keys, ranks: int) -> int:
    """Nemotron-H: Mamba 2 with other names of keys, its state in float32 unless the config says otherwise."""
    heads, dim = keys.required("mamba_num_heads"), keys.required("mamba_head_dim")
    recurrent = _recurrent_bytes(keys) if keys.get("mamba_ssm_cache_dtype") else _FLOAT32_BYTES
    return _mamba2_bytes(
        keys, ranks, heads * dim, keys.required("n_groups"), heads, dim, keys.required("ssm_state_size"),
        keys.required("conv_kernel"), recurrent,
    )  # fmt: skip


def _mamba2(keys: Keys, ranks: int) -> int:
    """Granite 4, Bamba, Falcon-H1."""
    heads = keys.required("mamba_n_heads")
    inner = keys.optional("mamba_d_ssm") or int(keys.required("mamba_expand") * keys.required("hidden_size"))
    dim = keys.text.get("mamba_d_head")
    return _mamba2_bytes(
        keys, ranks, inner, keys.required("mamba_n_groups"), heads, dim if isinstance(dim, int) else inner // heads,
        keys.required("mamba_d_state"), keys.required("mamba_d_conv"), _recurrent_bytes(keys),
    )  # fmt: skip


def _lightning(keys: Keys, ranks: int) -> int:
    """MiniMax-Text-01: heads dim dim values (`linear_attention_state_shape`)."""
    dim = keys.required("head_dim")
    return keys.required("num_attention_heads") // ranks * dim * dim * keys.dtype_bytes()


def _mamba2_bytes(
    keys: Keys, ranks: int, inner: int, groups: int, heads: int, dim: int, state: int, kernel: int, recurrent: int
) -> int:
    """(inner + 2 groups state)(kernel - 1) and heads dim state values; groups are padded up to the ranks."""
    groups += 0 if groups % ranks == 0 else ranks - groups
    convolved = (inner + 2 * groups * state) // ranks * (kernel - 1)
    return convolved * keys.dtype_bytes() + heads // ranks * dim * state * recurrent


def _mamba1(keys: Keys, ranks: int) -> int:
    """Jamba: inner (kernel - 1) and inner state values."""
    inner = keys.required("mamba_expand") * keys.required("hidden_size") // ranks
    convolved = inner * (keys.required("mamba_d_conv") - 1)
    return convolved * keys.dtype_bytes() + inner * keys.required("mamba_d_state") * _recurrent_bytes(keys)
