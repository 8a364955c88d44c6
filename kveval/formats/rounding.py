"""Round K or V to a cache format and back: what attention reads from a quantized cache."""

from __future__ import annotations

import math

import torch

from kveval.formats.codes import FloatFormat, parse_format
from kveval.formats.granularity import Granularity

SCALE_FLOOR = 1e-6
"""Smallest scale, as in vLLM's per-token-head store; keeps an all-zero group at zero instead of 0/0."""

_CACHE_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def scale_of(x: torch.Tensor, cache_format: str, granularity: str) -> torch.Tensor:
    """The scale each group of `x` gets when none is given.

    ``max(absmax / max_code, SCALE_FLOOR)`` over the group's finite elements (vLLM's per-token-head rule), with one
    exception: an fp8 format ``per_tensor`` has the constant scale 1.0, as vLLM's ``fp8`` cache has for a
    checkpoint without k/v scales.

    Args:
        x: K or V, [num_tokens, num_kv_heads, head_size], at least one token.
        cache_format: a name in :data:`kveval.formats.codes.FORMATS`.
        granularity: see :class:`kveval.formats.granularity.Granularity`.

    Returns:
        float32, broadcastable to [num_tokens, num_kv_heads, num_blocks, block_channels].
    """
    stored_as, grouping = parse_format(cache_format), Granularity.parse(granularity)
    if isinstance(stored_as, FloatFormat) and grouping.kind == "per_tensor":
        return torch.ones((1, 1, 1, 1), dtype=torch.float32, device=x.device)
    absmax = grouping.absmax(grouping.split(x.float()))
    return (absmax / stored_as.max_code).clamp_(min=SCALE_FLOOR)


def fake_quantize(
    x: torch.Tensor, cache_format: str, granularity: str, scale: float | torch.Tensor | None = None
) -> torch.Tensor:
    """`x` as it would be read back from a cache of this format.

    Computed in float32 as ``round(x * (1 / scale)) * scale``, then cast to the dtype of `x`. That last cast is the
    one thing a native cache does not do. In bfloat16 it moves a value by at most 2**-8 of itself: nothing for fp8 at
    a power-of-two scale, and for int8 as much again as rounding did, but only near absmax. Emulated int8 is
    therefore slightly pessimistic.

    Finite elements stay finite. An infinity becomes its group's largest code. NaN stays NaN and touches no
    other element.

    Args:
        x: K or V, [num_tokens, num_kv_heads, head_size], float32, float16 or bfloat16.
        cache_format: a name in :data:`kveval.formats.codes.FORMATS`.
        granularity: see :class:`kveval.formats.granularity.Granularity`.
        scale: fixed instead of taken from `x`: a number, or a tensor shaped like :func:`scale_of`'s. Values beyond
            ``max_code * scale`` saturate.

    Returns:
        Shape and dtype of `x`.

    Raises:
        ValueError: unknown name, wrong shape or dtype, a block size that does not divide head_size, or a scale
            that is not a finite number of at least SCALE_FLOOR.
    """
    if x.dim() != 3 or x.dtype not in _CACHE_DTYPES:
        raise ValueError(
            "x must be [num_tokens, num_kv_heads, head_size] in float32, float16 or bfloat16, "
            f"not {list(x.shape)} in {x.dtype}"
        )
    if isinstance(scale, int | float) and not (math.isfinite(scale) and scale >= SCALE_FLOOR):
        raise ValueError(f"scale must be a finite number of at least {SCALE_FLOOR}, not {scale}")
    stored_as, grouping = parse_format(cache_format), Granularity.parse(granularity)
    if x.numel() == 0:
        return x
    if scale is None:
        scale = scale_of(x, cache_format, granularity)
    scale = torch.as_tensor(scale, dtype=torch.float32, device=x.device)
    codes = stored_as.round(grouping.split(x.float()) * (1.0 / scale))
    # max_code * (absmax / max_code) can exceed absmax by a rounding step, which overflows at the dtype's end.
    limit = torch.finfo(x.dtype).max
    return codes.mul_(scale).clamp_(-limit, limit).flatten(-2).to(x.dtype)
