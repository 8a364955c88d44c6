"""Cache size and capacity of a model, per format and context length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from kveval.errors import UsageError
from kveval.formats.cache_dtype import CacheDtype
from kveval.memory.architecture import Architecture, read_architecture
from kveval.memory.budget import GIB, Budget
from kveval.memory.formats import formats_for, token_bytes
from kveval.memory.layers import StateLayer
from kveval.memory.pool import BlockPool, default_block_tokens, make_pool

# Asynchronous scheduling has two batches under way (`max_concurrent_batches`, vllm/config/vllm.py): vLLM's default on
# GPU; on CPU it is off (vllm/platforms/cpu.py).
_BATCHES_IN_FLIGHT = {"gpu": 2, "cpu": 1}
_DEFAULT_LENGTHS = (4096, 32768, 131072)


def default_batched_tokens(device: str, memory_bytes: int | None) -> int:
    """vLLM's ``--max-num-batched-tokens`` where none is given (`get_batch_defaults`, vllm/engine/arg_utils.py).

    An A100 of 80 GB is excepted there by its name, which is not known here: vLLM gives it 2048.
    """
    if device == "cpu":
        return 2048
    if memory_bytes is None:
        return 8192
    return 16384 if memory_bytes >= 160 * GIB else 8192 if memory_bytes >= 70 * GIB else 2048


@dataclass(frozen=True, slots=True)
class Serving:
    """How the engine is started.

    Attributes:
        device: gpu or cpu.
        block_tokens: None = vLLM's default.
        batched_tokens: prompt tokens computed in one step; None = vLLM's default.
        tensor_parallel: devices that share the heads.
    """

    device: str = "gpu"
    block_tokens: int | None = None
    batched_tokens: int | None = None
    tensor_parallel: int = 1

    def __post_init__(self) -> None:
        """Raises UsageError: a value that is not allowed."""
        if self.device not in ("gpu", "cpu"):
            raise UsageError(f"--device: {self.device!r} is not allowed; allowed: gpu, cpu")
        for flag, value in (
            ("--block-size", self.block_tokens),
            ("--batched-tokens", self.batched_tokens),
            ("--tensor-parallel", self.tensor_parallel),
        ):
            if value is not None and value <= 0:
                raise UsageError(f"{flag}: {value} is not allowed; allowed: a positive integer")

    def in_flight_tokens(self, memory_bytes: int | None) -> int:
        batched = self.batched_tokens or default_batched_tokens(self.device, memory_bytes)
        return _BATCHES_IN_FLIGHT[self.device] * batched

    def block_tokens_of(self, architecture: Architecture) -> int:
        return self.block_tokens or default_block_tokens(architecture, self.device)


def capacity_tokens(pool: BlockPool, cache_bytes: int, max_model_len: int, in_flight_tokens: int) -> int:
    """What the server reports as ``kv_cache_size_tokens`` (`get_kv_cache_capacity`, vllm/v1/core/kv_cache_utils.py):
    sequences of `max_model_len` tokens that fit, times their length."""
    return int(pool.blocks_in(cache_bytes) / pool.counted_blocks(max_model_len, in_flight_tokens) * max_model_len)


def estimate(
    config: Mapping[str, Any],
    source: str,
    *,
    window: int | None,
    serving: Serving | None = None,
    formats: list[str] | None = None,
    lengths: Sequence[int] | None = None,
    budget: Budget | None = None,
) -> dict[str, Any]:
    """Sizes per format and length, as data for JSON; all bytes are those of one device.

    Args:
        config: a parsed config.json; `source` is what errors call it.
        window: the model's context window in tokens; None when it does not say.
        lengths: context lengths in tokens; default 4k, 32k and 128k as far as the window goes, and the window.
        budget: None leaves out what fits.

    Raises:
        ConfigError: the config lacks what is needed.
        UsageError: a format this model cannot be stored in, or a length beyond its window.
    """
    serving = serving or Serving()
    architecture = read_architecture(config, source, serving.tensor_parallel)
    chosen = _lengths(lengths, window)
    stored_formats = formats_for(architecture, formats)
    in_flight = serving.in_flight_tokens(budget.memory_bytes if budget else None)
    return {
        "model_type": architecture.model_type,
        "window_tokens": window,
        "layers": architecture.counts(),
        "span_tokens": _span_tokens(architecture),
        "device": serving.device,
        "tensor_parallel": serving.tensor_parallel,
        "in_flight_tokens": in_flight,
        "memory_bytes": budget.memory_bytes if budget else None,
        "utilization": budget.utilization if budget else None,
        "weight_bytes": budget.weight_bytes if budget else None,
        "cache_bytes": budget.cache_bytes if budget else None,
        "formats": [
            _of_format(architecture, stored, serving, chosen, budget, in_flight, window) for stored in stored_formats
        ],
    }


def _lengths(lengths: Sequence[int] | None, window: int | None) -> list[int]:
    if lengths is None:
        within = {length for length in _DEFAULT_LENGTHS if window is None or length <= window}
        return sorted(within | ({window} if window else set()))
    if not lengths:
        raise UsageError("--lengths: none given; allowed: tokens such as 4k,32k")
    beyond = [length for length in lengths if window is not None and length > window]
    if beyond:
        raise UsageError(f"--lengths: {beyond[0]} is beyond the model's window; allowed: up to {window}")
    return list(dict.fromkeys(lengths))


def _span_tokens(architecture: Architecture) -> int | None:
    return next((layer.span_tokens for layer in architecture.attention if layer.span_tokens is not None), None)


def _of_format(
    architecture: Architecture,
    dtype: CacheDtype,
    serving: Serving,
    lengths: Sequence[int],
    budget: Budget | None,
    in_flight: int,
    window: int | None,
) -> dict[str, Any]:
    pool = make_pool(architecture, dtype, serving.block_tokens_of(architecture), serving.device)
    attention = architecture.attention
    row: dict[str, Any] = {
        "format": dtype.name,
        "scales": dtype.scales,
        "bytes_per_token": sum(token_bytes(dtype, layer) for layer in attention if layer.span == "full"),
        "bytes_per_token_in_span": sum(token_bytes(dtype, layer) for layer in attention if layer.span != "full"),
        "state_bytes_per_sequence": sum(
            layer.state_bytes for layer in architecture.layers if isinstance(layer, StateLayer)
        ),
        "block_tokens": pool.block_tokens,
        "block_bytes": pool.block_bytes,
        "lengths": [_of_length(pool, length, budget, in_flight) for length in lengths],
    }
    if budget is not None:
        row["blocks"] = pool.blocks_in(budget.cache_bytes)
        longest = window or max(lengths)
        row["capacity_tokens"] = capacity_tokens(pool, budget.cache_bytes, longest, in_flight)
        row["longest_context_tokens"] = _longest(pool, budget.cache_bytes, longest, in_flight)
    return row


def _of_length(pool: BlockPool, length: int, budget: Budget | None, in_flight: int) -> dict[str, Any]:
    held = pool.sequence_blocks(length)
    row: dict[str, Any] = {"context_length": length, "sequence_bytes": held * pool.block_bytes}
    if budget is not None:
        blocks = pool.blocks_in(budget.cache_bytes)
        row["sequences"] = floor(blocks / held)
        row["server_concurrency"] = round(blocks / pool.counted_blocks(length, in_flight), 2)
    return row


def _longest(pool: BlockPool, cache_bytes: int, window: int, in_flight: int) -> int:
    """The longest `max_model_len` up to `window` the server starts with; 0 when it starts with none."""
    fits, too_long = 0, window + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if pool.counted_blocks(middle, in_flight) <= pool.blocks_in(cache_bytes):
            fits = middle
        else:
            too_long = middle
    return fits
