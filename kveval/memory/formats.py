"""What a cache dtype takes in one layer of a model, and whether it can store that model at all."""

from __future__ import annotations

from kveval.errors import UsageError, nearest
from kveval.formats.cache_dtype import CacheDtype
from kveval.formats.registry import CACHE_DTYPES, find_dtype
from kveval.memory.architecture import Architecture
from kveval.memory.layers import AttentionLayer


def token_bytes(dtype: CacheDtype, layer: AttentionLayer) -> int:
    """Return the bytes that one token takes in `layer`, on one rank, before rounding to blocks."""
    if layer.opaque_bytes is not None:
        return layer.opaque_bytes
    if layer.is_latent:
        return dtype.latent.vector_bytes(layer.head_dim) if dtype.latent else 0
    if dtype.layout is None:
        return 0
    return layer.kv_heads * (dtype.layout.vector_bytes(layer.head_dim) + dtype.layout.vector_bytes(layer.head_dim_v))


def misfit(dtype: CacheDtype, architecture: Architecture) -> str | None:
    """Say why `architecture` cannot be stored in `dtype`; None when it can."""
    for layer in architecture.attention:
        if layer.opaque_bytes is not None:
            continue
        layout = dtype.latent if layer.is_latent else dtype.layout
        if layout is None:
            return "vLLM stores no latent (MLA) cache in it" if layer.is_latent else "is made for latent (MLA) caches"
        reason = layout.misfit(layer.head_dim)
        if reason:
            return reason
    return None


def parse_format(name: str, where: str = "--formats") -> CacheDtype:
    """Return the cache dtype called `name`. Raises UsageError: kveval does not know it or cannot size it."""
    dtype = find_dtype(name)
    if dtype is None:
        raise UsageError(f"{where}: {name!r} is not a cache format this can size; {nearest(name, _sized_names())}")
    if not dtype.is_sized:
        raise UsageError(f"{where}: {name!r} cannot be sized: {dtype.unsized}; use: {', '.join(_sized_names())}")
    return dtype


def formats_for(architecture: Architecture, names: list[str] | None) -> list[CacheDtype]:
    """Return the dtypes asked for, each once; by default the common ones in which `architecture` can be stored."""
    sized = [dtype for dtype in CACHE_DTYPES.values() if dtype.is_sized]
    fitting = [dtype for dtype in sized if misfit(dtype, architecture) is None]
    if names is None:
        return [dtype for dtype in fitting if dtype.is_common]
    if not names:
        raise UsageError(f"--formats: none given; use: {', '.join(_sized_names())}")
    chosen = list(dict.fromkeys(parse_format(name) for name in names))
    for dtype in chosen:
        reason = misfit(dtype, architecture)
        if reason:
            usable = ", ".join(one.name for one in fitting)
            raise UsageError(f"--formats: {dtype.name}: {reason}; use for this model: {usable}")
    return chosen


def _sized_names() -> list[str]:
    return [name for dtype in CACHE_DTYPES.values() if dtype.is_sized for name in (dtype.name, *dtype.aliases)]
