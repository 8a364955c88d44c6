"""Computes vLLM's block pool: how layers share blocks, and how many blocks a sequence holds.

Source: vllm/v1/core/kv_cache_utils.py (`get_kv_cache_groups`, `unify_kv_cache_spec_page_size`,
`_get_kv_cache_groups_uniform_page_size`, `get_kv_cache_capacity`), `_align_hybrid_block_size` in
vllm/platforms/interface.py, and `max_memory_usage_bytes` of the specs in vllm/v1/kv_cache_interface.py, all 0.32.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import ceil

from kveval.errors import UsageError
from kveval.formats.backends import DEVICES
from kveval.formats.cache_dtype import CacheDtype
from kveval.memory.architecture import Architecture
from kveval.memory.budget import GIB
from kveval.memory.formats import token_bytes
from kveval.memory.layers import AttentionLayer, Layer, StateLayer

# Asynchronous scheduling has two batches under way (`max_concurrent_batches`, vllm/config/vllm.py): vLLM's default on
# GPU. It is off on CPU (vllm/platforms/cpu.py).
_BATCHES_IN_FLIGHT, _BATCHES_IN_FLIGHT_ON_CPU = 2, 1
# Prefix caching keeps a state twice: the running one, and a checkpoint at the end of the last block.
_STATE_BLOCKS = 2
_KERNEL_BLOCK_TOKENS, _KERNEL_BLOCK_TOKENS_ON_CPU = 16, 32
_LATENT_HYBRID_BLOCK_TOKENS = 128
# Where the kinds of layers differ less in number than this, padding costs less than more groups.
_PADDING_RATIO = 1.5


def default_batched_tokens(device: str, memory_bytes: int | None) -> int:
    """Return vLLM's ``--max-num-batched-tokens`` where none is given.

    Source: `get_batch_defaults` in vllm/engine/arg_utils.py. It also gives an A100 of 80 GB 2048, by the name of the
    device, which is not known here.
    """
    if device == "cpu":
        return 2048
    if memory_bytes is None:
        return 8192
    return 16384 if memory_bytes >= 160 * GIB else 8192 if memory_bytes >= 70 * GIB else 2048


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of the engine that decide what a sequence takes.

    Attributes:
        device: one of `kveval.formats.backends.DEVICES`.
        block_tokens: None = vLLM's default.
        batched_tokens: prompt tokens computed in one step; None = vLLM's default.
        tensor_parallel: devices that share the heads.
    """

    device: str = "gpu"
    block_tokens: int | None = None
    batched_tokens: int | None = None
    tensor_parallel: int = 1

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError: a value that cannot be used."""
        if self.device not in DEVICES:
            raise UsageError(f"--device: {self.device!r} is not a device; use: {', '.join(DEVICES)}")
        for flag, value in (
            ("--block-size", self.block_tokens),
            ("--batched-tokens", self.batched_tokens),
            ("--tensor-parallel", self.tensor_parallel),
        ):
            if value is not None and value <= 0:
                raise UsageError(f"{flag}: {value} is too small; use a positive integer")

    def in_flight_tokens(self, memory_bytes: int | None) -> int:
        """Return how many prompt tokens the engine computes at once, on a device with `memory_bytes`."""
        batched = self.batched_tokens or default_batched_tokens(self.device, memory_bytes)
        return (_BATCHES_IN_FLIGHT_ON_CPU if self.device == "cpu" else _BATCHES_IN_FLIGHT) * batched

    def block_tokens_of(self, architecture: Architecture) -> int:
        """Return the block size asked for, or vLLM's default (vllm/config/cache.py, vllm/platforms/cpu.py)."""
        return self.block_tokens or (128 if self.device == "cpu" and not architecture.is_latent else 16)


def _blocks(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


@dataclass(frozen=True, slots=True)
class _Page:
    """One layer's part of a block."""

    layer: Layer
    block_tokens: int
    page_bytes: int

    def type(self) -> tuple[str, int | None, int]:
        """Return a key that is equal for layers that always need the same number of blocks."""
        if isinstance(self.layer, StateLayer):
            return ("state", None, self.block_tokens)
        return (self.layer.span, self.layer.span_tokens, self.block_tokens)

    def blocks(self, tokens: int, in_flight_tokens: int) -> int:
        """Return the blocks vLLM counts (`max_admission_blocks_per_request`) while it computes `in_flight_tokens`."""
        if isinstance(self.layer, StateLayer):
            return _STATE_BLOCKS
        span = self.layer.span_tokens
        if self.layer.span == "full" or span is None:
            return _blocks(tokens, self.block_tokens)
        if self.layer.span == "chunked":
            return _blocks(min(span + in_flight_tokens, tokens), self.block_tokens)
        # A window can begin inside a block.
        return _blocks(min(span - 1 + in_flight_tokens, tokens), self.block_tokens) + 1

    def blocks_decoding(self, tokens: int) -> int:
        """Return the blocks of a sequence of `tokens` while it decodes: never more than its tokens fill."""
        if isinstance(self.layer, StateLayer):
            return _STATE_BLOCKS
        return min(self.blocks(tokens, 1), _blocks(tokens, self.block_tokens))


@dataclass(frozen=True, slots=True)
class BlockPool:
    """One pool of equal blocks that all groups of layers share.

    Attributes:
        block_bytes: of one block, for all layers of a group.
        block_tokens: of a full-attention block; larger than asked for where a state must fit into it.
        groups: the page of one layer, and how many groups are like it.
    """

    block_bytes: int
    block_tokens: int
    groups: tuple[tuple[_Page, int], ...]

    def sequence_blocks(self, tokens: int) -> int:
        """Return the blocks that a sequence of `tokens` holds while it decodes."""
        return sum(page.blocks_decoding(tokens) * count for page, count in self.groups)

    def counted_blocks(self, tokens: int, in_flight_tokens: int) -> int:
        """Return the blocks vLLM counts for a sequence of `tokens` when it reports capacity or admits requests."""
        return sum(page.blocks(tokens, in_flight_tokens) * count for page, count in self.groups)

    def blocks_in(self, cache_bytes: int) -> int:
        return cache_bytes // self.block_bytes


@dataclass(frozen=True, slots=True)
class Skipped:
    """Layers that are left in the model's own dtype (``--kv-cache-dtype-skip-layers``).

    Attributes:
        dtype: the model's own.
        positions: numbers of decoder layers, from 0.
        is_sliding: whether every layer with a sliding window is one of them.
    """

    dtype: CacheDtype
    positions: frozenset[int] = frozenset()
    is_sliding: bool = False

    def has(self, layer: AttentionLayer) -> bool:
        return layer.position in self.positions or (self.is_sliding and layer.span == "sliding")


def make_pool(
    architecture: Architecture, dtype: CacheDtype, settings: EngineSettings, skipped: Skipped | None = None
) -> BlockPool:
    """Return the pool that vLLM makes for `architecture` in `dtype`, `skipped` layers apart."""

    def bytes_of(layer: AttentionLayer) -> int:
        return token_bytes(skipped.dtype if skipped and skipped.has(layer) else dtype, layer)

    block_tokens = settings.block_tokens_of(architecture)
    largest = max(map(bytes_of, architecture.attention))
    states = [layer.state_bytes for layer in architecture.layers if isinstance(layer, StateLayer)]
    if states:
        block_tokens = _aligned(architecture, max(states), largest, block_tokens, settings.device)
    pages = [
        _Page(layer, block_tokens, largest * block_tokens)
        if isinstance(layer, StateLayer)
        else _Page(layer, block_tokens, bytes_of(layer) * block_tokens)
        for layer in architecture.layers
    ]
    if len({page.type() for page in pages}) == 1:
        return BlockPool(sum(page.page_bytes for page in pages), block_tokens, ((pages[0], 1),))
    return _grouped([_unified(page, max(p.page_bytes for p in pages)) for page in pages], block_tokens)


def _aligned(architecture: Architecture, state: int, token_bytes: int, block_tokens: int, device: str) -> int:
    """Return the tokens of a block that is large enough for the page of a layer to hold a state."""
    kernel = _KERNEL_BLOCK_TOKENS_ON_CPU if device == "cpu" else _KERNEL_BLOCK_TOKENS
    step = max(kernel, block_tokens, _LATENT_HYBRID_BLOCK_TOKENS if architecture.is_latent else 0)
    needed = step * ceil(state / (step * token_bytes))
    return max(block_tokens, kernel * ceil(needed / kernel))


def _unified(page: _Page, page_bytes: int) -> _Page:
    """Return `page` as large as the largest: with more tokens where they fill it, else with padding."""
    if isinstance(page.layer, StateLayer) or page_bytes % page.page_bytes:
        return replace(page, page_bytes=page_bytes)
    return replace(page, page_bytes=page_bytes, block_tokens=page.block_tokens * (page_bytes // page.page_bytes))


def _grouped(pages: list[_Page], block_tokens: int) -> BlockPool:
    """Return a pool with groups of equally many layers of one kind; the last group of a kind is padded.

    A group has as many layers as the rarest kind. It has as many as the commonest kind if that has less than
    `_PADDING_RATIO` times as many.
    """
    buckets = Counter(pages)
    fewest, most = min(buckets.values()), max(buckets.values())
    size = most if most < fewest * _PADDING_RATIO else fewest
    groups = tuple((page, _blocks(count, size)) for page, count in buckets.items())
    widest = max(_blocks(count, _blocks(count, size)) for count in buckets.values())
    return BlockPool(widest * pages[0].page_bytes, block_tokens, groups)
