"""What a cache dtype takes in one layer of a model, and whether it can store that model at all."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.errors import UsageError, nearest
from kveval.formats.backends import DEVICES, Shape, devices_of, stored_dtype
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


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """A cache dtype as an engine stores it.

    Attributes:
        asked: the dtype that ``--kv-cache-dtype`` gets.
        stored: the dtype whose layout the cache has.
        devices: where it is stored so.
    """

    asked: CacheDtype
    stored: CacheDtype
    devices: tuple[str, ...]


def stored_formats(dtype: CacheDtype, architecture: Architecture, device: str) -> list[StoredFormat]:
    """Return how vLLM stores `architecture` in `dtype`, as it is asked for first; [] where no backend takes it."""
    if not dtype.is_in_vllm:
        return [StoredFormat(dtype, dtype, devices_of(device))]
    shapes = shapes_of(architecture)
    found: dict[str, tuple[str, ...]] = {}
    for one in devices_of(device):
        stored = {stored_dtype(dtype.name, shape, one) for shape in shapes}
        name = stored.pop() if len(stored) == 1 else None
        if name is not None:
            found[name] = (*found.get(name, ()), one)
        elif None not in stored and stored:
            found[dtype.name] = (*found.get(dtype.name, ()), one)
    as_asked_first = sorted(found.items(), key=lambda item: item[0] != dtype.name)
    return [StoredFormat(dtype, CACHE_DTYPES[name], devices) for name, devices in as_asked_first]


def shapes_of(architecture: Architecture) -> set[Shape]:
    """Return what the layers of a model store of one token, where that depends on the cache dtype."""
    return {_shape(architecture, layer) for layer in architecture.attention if layer.opaque_bytes is None}


def _shape(architecture: Architecture, layer: AttentionLayer) -> Shape:
    if not layer.is_latent:
        return Shape("heads", layer.head_dim, layer.head_dim_v)
    return Shape("sparse latent" if architecture.is_sparse else "latent", layer.head_dim, 0)


def formats_for(architecture: Architecture, names: list[str] | None, device: str) -> list[list[StoredFormat]]:
    """Return how each of the dtypes asked for is stored; by default the common ones that a backend of `device` takes.

    Raises:
        UsageError: a dtype is unknown, cannot store the model, or has no backend; or none of them has one.
    """
    sized = [dtype for dtype in CACHE_DTYPES.values() if dtype.is_sized and misfit(dtype, architecture) is None]
    stored = {dtype.name: stored_formats(dtype, architecture, device) for dtype in sized}
    usable = ", ".join(name for name, formats in stored.items() if formats)
    if names is None:
        found = [stored[dtype.name] for dtype in sized if dtype.is_common and stored[dtype.name]]
        if not found:
            instead = f"use for this model: {usable}" if usable else f"use another of: {', '.join(DEVICES)}"
            raise UsageError(f"--device: no attention backend of vLLM takes this model on {device}; {instead}")
        return found
    if not names:
        raise UsageError(f"--formats: none given; use: {', '.join(_sized_names())}")
    chosen = list(dict.fromkeys(parse_format(name) for name in names))
    for dtype in chosen:
        reason = misfit(dtype, architecture)
        if reason is None and not stored[dtype.name]:
            reason = f"no attention backend of vLLM takes it for this model on {device}"
        if reason:
            raise UsageError(f"--formats: {dtype.name}: {reason}; use for this model: {usable or 'another device'}")
    return [stored[dtype.name] for dtype in chosen]


def _sized_names() -> list[str]:
    return [name for dtype in CACHE_DTYPES.values() if dtype.is_sized for name in (dtype.name, *dtype.aliases)]
