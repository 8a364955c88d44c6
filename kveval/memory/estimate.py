"""Cache size and capacity of a model, per cache dtype and context length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from kveval.errors import UsageError
from kveval.formats.cache_dtype import CacheDtype
from kveval.memory.architecture import Architecture, read_architecture
from kveval.memory.budget import Budget
from kveval.memory.formats import StoredFormat, formats_for, token_bytes
from kveval.memory.layers import StateLayer
from kveval.memory.pool import BlockPool, EngineSettings, make_pool

_DEFAULT_LENGTHS = (4096, 32768, 131072)


@dataclass(frozen=True, slots=True)
class LengthSize:
    """What one sequence of `context_length` tokens takes.

    Attributes:
        sequences: how many fit; None without a budget.
        server_concurrency: how many the server itself counts; None without a budget.
    """

    context_length: int
    sequence_bytes: int
    sequences: int | None
    server_concurrency: float | None


@dataclass(frozen=True, slots=True)
class OtherStorage:
    """A cache dtype that some devices store in another layout."""

    stored_as: str
    devices: tuple[str, ...]
    bytes_per_token: int


@dataclass(frozen=True, slots=True)
class FormatSize:
    """What one cache dtype takes.

    Attributes:
        stored_as: the dtype whose layout the cache has: `format`, unless the engine stores that as another.
        devices: where it is stored so.
        other_storage: how it is stored on other devices that ``--device`` stands for.
        bytes_per_token: in layers that keep every token; `bytes_per_token_in_span`: in layers that keep a window.
        state_bytes_per_sequence: of layers that keep a state of fixed size.
        blocks, capacity_tokens: what the cache holds; None without a budget.
        longest_context_tokens: 0 when the server would not start, whatever the context; None without a budget.
    """

    format: str
    stored_as: str
    devices: tuple[str, ...]
    scales: str
    bytes_per_token: int
    bytes_per_token_in_span: int
    state_bytes_per_sequence: int
    block_tokens: int
    block_bytes: int
    lengths: tuple[LengthSize, ...]
    blocks: int | None = None
    capacity_tokens: int | None = None
    longest_context_tokens: int | None = None
    other_storage: tuple[OtherStorage, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Sizes of a model's cache. All bytes are those of one device.

    Attributes:
        window_tokens: the model's context window; None when it does not say.
        layers: how many there are of each kind.
        span_tokens: the window of layers that keep one; None when every layer keeps all tokens.
        budget: None leaves out what fits.
    """

    model_type: str
    window_tokens: int | None
    layers: Mapping[str, int]
    span_tokens: int | None
    device: str
    tensor_parallel: int
    in_flight_tokens: int
    budget: Budget | None
    formats: tuple[FormatSize, ...]


def capacity_tokens(pool: BlockPool, cache_bytes: int, max_model_len: int, in_flight_tokens: int) -> int:
    """Return what the server reports as ``kv_cache_size_tokens``.

    It is the number of sequences of `max_model_len` tokens that fit, times their length (`get_kv_cache_capacity` in
    vllm/v1/core/kv_cache_utils.py).
    """
    return int(pool.blocks_in(cache_bytes) / pool.counted_blocks(max_model_len, in_flight_tokens) * max_model_len)


def estimate(
    config: Mapping[str, Any],
    source: str,
    *,
    window: int | None,
    settings: EngineSettings | None = None,
    formats: list[str] | None = None,
    lengths: Sequence[int] | None = None,
    budget: Budget | None = None,
) -> MemoryEstimate:
    """Size a model's cache per cache dtype and context length.

    Args:
        config: a parsed config.json; `source` is what errors call it.
        window: the model's context window in tokens; None when it does not say.
        formats: cache dtypes; default: the common ones that a backend of the device stores.
        lengths: context lengths in tokens; default: 4k, 32k and 128k as far as the window goes, and the window.
        budget: None leaves out what fits.
    """
    settings = settings or EngineSettings()
    architecture = read_architecture(config, source, settings.tensor_parallel)
    chosen = _lengths(lengths, window)
    in_flight = settings.in_flight_tokens(budget.memory_bytes if budget else None)
    sizes = []
    for stored in formats_for(architecture, formats, settings.device):
        pool = make_pool(architecture, stored[0].stored, settings)
        sizes.append(_of_format(architecture, stored, pool, chosen, budget, in_flight, window or max(chosen)))
    return MemoryEstimate(
        model_type=architecture.model_type,
        window_tokens=window,
        layers=architecture.counts(),
        span_tokens=next((layer.span_tokens for layer in architecture.attention if layer.span_tokens), None),
        device=settings.device,
        tensor_parallel=settings.tensor_parallel,
        in_flight_tokens=in_flight,
        budget=budget,
        formats=tuple(sizes),
    )


def _lengths(lengths: Sequence[int] | None, window: int | None) -> list[int]:
    if lengths is None:
        within = {length for length in _DEFAULT_LENGTHS if window is None or length <= window}
        return sorted(within | ({window} if window else set()))
    if not lengths:
        raise UsageError("--lengths: none given; use tokens such as 4k,32k")
    beyond = [length for length in lengths if window is not None and length > window]
    if beyond:
        raise UsageError(f"--lengths: {beyond[0]} is beyond the model's window; use up to {window}")
    return list(dict.fromkeys(lengths))


def _of_format(
    architecture: Architecture,
    formats: Sequence[StoredFormat],
    pool: BlockPool,
    lengths: Sequence[int],
    budget: Budget | None,
    in_flight: int,
    longest: int,
) -> FormatSize:
    first, *others = formats
    dtype, attention = first.stored, architecture.attention
    blocks = pool.blocks_in(budget.cache_bytes) if budget else None
    return FormatSize(
        format=first.asked.name,
        stored_as=dtype.name,
        devices=first.devices,
        scales=dtype.scales,
        bytes_per_token=_bytes_per_token(dtype, architecture),
        bytes_per_token_in_span=sum(token_bytes(dtype, layer) for layer in attention if layer.span != "full"),
        state_bytes_per_sequence=sum(
            layer.state_bytes for layer in architecture.layers if isinstance(layer, StateLayer)
        ),
        block_tokens=pool.block_tokens,
        block_bytes=pool.block_bytes,
        lengths=tuple(_of_length(pool, length, blocks, in_flight) for length in lengths),
        blocks=blocks,
        capacity_tokens=capacity_tokens(pool, budget.cache_bytes, longest, in_flight) if budget else None,
        longest_context_tokens=_longest(pool, blocks, longest, in_flight) if blocks is not None else None,
        other_storage=tuple(
            OtherStorage(other.stored.name, other.devices, _bytes_per_token(other.stored, architecture))
            for other in others
        ),
    )


def _bytes_per_token(dtype: CacheDtype, architecture: Architecture) -> int:
    return sum(token_bytes(dtype, layer) for layer in architecture.attention if layer.span == "full")


def _of_length(pool: BlockPool, length: int, blocks: int | None, in_flight: int) -> LengthSize:
    held = pool.sequence_blocks(length)
    return LengthSize(
        context_length=length,
        sequence_bytes=held * pool.block_bytes,
        sequences=None if blocks is None else floor(blocks / held),
        server_concurrency=None if blocks is None else round(blocks / pool.counted_blocks(length, in_flight), 2),
    )


def _longest(pool: BlockPool, blocks: int, window: int, in_flight: int) -> int:
    """Return the longest `max_model_len` up to `window` with which the server starts; 0 when it starts with none."""
    fits, too_long = 0, window + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if pool.counted_blocks(middle, in_flight) <= blocks:
            fits = middle
        else:
            too_long = middle
    return fits
