"""Round K or V to a cache format and back: what attention reads from a quantized cache."""

from __future__ import annotations

import math

import torch

from kveval.formats.codec import SCALE_FLOOR
from kveval.formats.granularity import Granularity
from kveval.formats.registry import find_codec

_MODEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def scale_of(x: torch.Tensor, cache_format: str, granularity: str) -> torch.Tensor:
    """Return the scale that each group of `x` gets when none is given.

    The codec computes it from the largest finite magnitude of the group: ``max(absmax / max_code, SCALE_FLOOR)``,
    vLLM's rule per token and head. A codec with a `tensor_scale` has that constant ``per_tensor``.

    Takes the arguments of `fake_quantize`, with at least one token. Returns float32, in a shape that broadcasts to
    [num_tokens, num_kv_heads, num_blocks, block_channels].
    """
    codec, grouping = find_codec(cache_format), Granularity.parse(granularity)
    if codec.tensor_scale is not None and grouping.kind == "per_tensor":
        return torch.full((1, 1, 1, 1), codec.tensor_scale, dtype=torch.float32, device=x.device)
    return codec.scale(grouping.absmax(grouping.split(x.float())))


def fake_quantize(
    x: torch.Tensor, cache_format: str, granularity: str, scale: float | torch.Tensor | None = None
) -> torch.Tensor:
    """Return `x` as attention would read it from a cache of this format, in its own shape and dtype.

    Computes ``round(x * (1 / scale)) * scale`` in float32 and casts the result to the dtype of `x`. A native cache
    does not make that last cast. In bfloat16 it moves a value by at most 2**-8 of itself: nothing for fp8 at a scale
    that is a power of two. For int8 near absmax it is as much as the rounding itself, so emulated int8 is slightly
    pessimistic.

    Finite elements stay finite. An infinity becomes the largest code of its group. NaN stays NaN and changes no other
    element.

    Args:
        x: K or V, [num_tokens, num_kv_heads, head_size], in float32, float16 or bfloat16.
        cache_format: a name in `kveval.formats.registry.CODECS`.
        granularity: see `kveval.formats.granularity.Granularity`.
        scale: a number, or a tensor shaped like the result of :func:`scale_of`; None takes it from `x`. Values beyond
            ``max_code * scale`` become the largest code.

    Raises:
        ValueError: unknown name, wrong shape or dtype, a block size that does not divide head_size, or a scale
            that is not a finite number of at least SCALE_FLOOR.
    """
    if x.dim() != 3 or x.dtype not in _MODEL_DTYPES:
        raise ValueError(
            "x must be [num_tokens, num_kv_heads, head_size] in float32, float16 or bfloat16, "
            f"not {list(x.shape)} in {x.dtype}"
        )
    if isinstance(scale, int | float) and not (math.isfinite(scale) and scale >= SCALE_FLOOR):
        raise ValueError(f"scale must be a finite number of at least {SCALE_FLOOR}, not {scale}")
    codec, grouping = find_codec(cache_format), Granularity.parse(granularity)
    if x.numel() == 0:
        return x
    if scale is None:
        scale = scale_of(x, cache_format, granularity)
    scale = torch.as_tensor(scale, dtype=torch.float32, device=x.device)
    codes = codec.round(grouping.split(x.float()) * (1.0 / scale))
    # max_code * (absmax / max_code) can exceed absmax by a rounding step, which overflows at the dtype's end.
    limit = torch.finfo(x.dtype).max
    return codes.mul_(scale).clamp_(-limit, limit).flatten(-2).to(x.dtype)
