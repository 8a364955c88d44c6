"""Compares kveval's emulated formats with vLLM's own GPU kernels: what they store, and what attention reads of it.

Without a GPU, Triton's interpreter runs the kernels on the CPU. It has to be chosen before Triton is imported, so the
comparison runs in a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_FORMATS = (("int8", "INT8_PER_TOKEN_HEAD", "int8"), ("fp8_e4m3", "FP8_PER_TOKEN_HEAD", "float8_e4m3fn"))
_TOKENS, _KV_HEADS, _HEAD_SIZE, _BLOCK_SIZE, _QUERY_HEADS, _QUERIES = 64, 2, 64, 16, 4, 5
_SPREADS = (0.01, 1.0, 30.0)


def measure() -> dict[str, Any]:
    """For each format: the share of equal codes and scales, and how far attention by vLLM's kernel is from ours."""
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"}
    if not Path("/proc/driver/nvidia").exists():
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the kernels did not run: {done.stderr.strip()[-600:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _compare() -> dict[str, Any]:
    import torch
    import triton
    import vllm.triton_utils as triton_of_vllm

    # Without a GPU, vLLM replaces Triton by a placeholder.
    triton_of_vllm.HAS_TRITON, triton_of_vllm.triton, triton_of_vllm.tl = True, triton, triton.language
    torch.manual_seed(0)
    is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return {
        "interpreted": is_interpreted,
        "triton": triton.__version__,
        **{name: _format(name, mode, dtype) for name, mode, dtype in _FORMATS},
    }


def _format(name: str, mode: str, dtype: str) -> dict[str, Any]:
    import torch

    from kveval.formats.registry import find_codec
    from kveval.formats.rounding import scale_of

    equal, halved, tied, scales = [], [], [], []
    for spread in _SPREADS:
        keys = (torch.randn(_TOKENS, _KV_HEADS, _HEAD_SIZE) * spread).to(torch.bfloat16)
        stored, stored_scales = _stored(keys, mode, dtype)
        scale = scale_of(keys, name, "per_token_head")
        scaled = (keys.float().unsqueeze(2) * (1.0 / scale)).view(keys.shape)
        ours = find_codec(name).round(scaled.clone())
        theirs = stored.float().cpu().view(keys.shape)
        equal.append(theirs == ours)
        halved.append((theirs * 2 == ours) & _is_power_of_two(ours))
        tied.append((theirs != ours) & ((scaled - theirs).abs() == (scaled - ours).abs()))
        scales.append(torch.equal(stored_scales.cpu().view(-1), scale.view(-1)))
    codes, half, tie = torch.stack(equal), torch.stack(halved), torch.stack(tied)
    return {
        "values": codes.numel(),
        "equal_codes": float(codes.float().mean()),
        # Triton's interpreter casts to FP8 otherwise than a GPU. It loses the carry where rounding reaches the next
        # power of two (31.7 becomes 16, not 32), and rounds ties away from zero (100 becomes 104, not 96).
        "lost_carries": float(half.float().mean()),
        "ties_away": float(tie.float().mean()),
        "other_codes": int((~codes & ~half & ~tie).sum()),
        "equal_scales": all(scales),
        "attention": _attention(name, mode, dtype),
    }


def _is_power_of_two(x: torch.Tensor) -> torch.Tensor:
    import torch

    mantissa, _ = torch.frexp(x.abs())
    return mantissa == 0.5


def _device() -> str:
    return "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


def _stored(x: torch.Tensor, mode: str, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Stores `x` by vLLM's kernel. Returns codes [blocks, block_size, heads, head_size], scales without the last."""
    import torch
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import (
        triton_reshape_and_cache_flash_per_token_head_quant,
    )
    from vllm.v1.kv_cache_interface import KVQuantMode

    x = x.to(_device())
    shape = (_TOKENS // _BLOCK_SIZE, _BLOCK_SIZE, _KV_HEADS)
    codes = torch.zeros(*shape, _HEAD_SIZE, dtype=getattr(torch, dtype), device=x.device)
    scales = torch.zeros(shape, device=x.device)
    triton_reshape_and_cache_flash_per_token_head_quant(
        x, x, codes, codes.clone(), scales, scales.clone(), torch.arange(_TOKENS, device=x.device), KVQuantMode[mode]
    )
    return codes, scales


def _attention(name: str, mode: str, dtype: str) -> dict[str, float]:
    """Returns mean absolute differences from exact attention, of vLLM's kernel and of ours, and between both.

    The kernel reads codes that kveval rounded, so that a store which differs is not counted twice. In float32: the
    interpreter computes nothing right in bfloat16.
    """
    import torch
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention
    from vllm.v1.kv_cache_interface import KVQuantMode

    from kveval.formats.registry import find_codec
    from kveval.formats.rounding import fake_quantize, scale_of

    queries = torch.randn(_QUERIES, _QUERY_HEADS, _HEAD_SIZE)
    pair = [torch.randn(_TOKENS, _KV_HEADS, _HEAD_SIZE) for _ in range(2)]
    shape = (_TOKENS // _BLOCK_SIZE, _BLOCK_SIZE, _KV_HEADS)
    caches, scale_caches = [], []
    for x in pair:
        scale = scale_of(x, name, "per_token_head")
        codes = find_codec(name).round(x.unsqueeze(2) * (1.0 / scale))
        caches.append(codes.to(getattr(torch, dtype)).view(*shape, _HEAD_SIZE).to(_device()))
        scale_caches.append(scale.view(shape).to(_device()))
    found = torch.zeros_like(queries, device=_device())
    unified_attention(
        q=queries.to(_device()), k=caches[0], v=caches[1], out=found,
        cu_seqlens_q=torch.tensor([0, _QUERIES], dtype=torch.int32, device=_device()), max_seqlen_q=_QUERIES,
        seqused_k=torch.tensor([_TOKENS], dtype=torch.int32, device=_device()), max_seqlen_k=_TOKENS,
        softmax_scale=1 / math.sqrt(_HEAD_SIZE), causal=True, window_size=(-1, -1),
        block_table=torch.arange(shape[0], dtype=torch.int32, device=_device())[None], softcap=0,
        q_descale=None, k_descale=None, v_descale=None, kv_quant_mode=KVQuantMode[mode],
        k_scale_cache=scale_caches[0], v_scale_cache=scale_caches[1],
    )  # fmt: skip
    exact = _exact(queries, *pair)
    ours = _exact(queries, *(fake_quantize(x, name, "per_token_head") for x in pair))

    def differs(one: torch.Tensor, other: torch.Tensor) -> float:
        return float((one - other).abs().mean())

    kernel = found.float().cpu()
    return {"kernel": differs(kernel, exact), "ours": differs(ours, exact), "between": differs(kernel, ours)}


def _exact(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Returns causal attention of the last tokens in float32, [queries, heads, head_size]."""
    import torch

    keys, values = (x.repeat_interleave(_QUERY_HEADS // _KV_HEADS, 1) for x in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(_HEAD_SIZE)
    last = torch.arange(_QUERIES)[:, None] + _TOKENS - _QUERIES
    scores = scores.masked_fill(torch.arange(_TOKENS)[None] > last, -torch.inf)
    return torch.einsum("hqk,khd->qhd", torch.softmax(scores, -1), values)


if __name__ == "__main__":
    print(json.dumps(_compare()))
