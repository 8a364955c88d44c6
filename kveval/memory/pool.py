"""vLLM's block pool: how layers share blocks, and how many blocks a sequence holds.

Source: vllm/v1/core/kv_cache_utils.py (`get_kv_cache_groups`, `unify_kv_cache_spec_page_size`,
`_get_kv_cache_groups_uniform_page_size`, `get_kv_cache_capacity`), `_align_hybrid_block_size` in
vllm/platforms/interface.py, and `max_memory_usage_bytes` of the specs in vllm/v1/kv_cache_interface.py, all 0.32.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import ceil

from kveval.formats.cache_dtype import CacheDtype
from kveval.memory.architecture import Architecture
from kveval.memory.formats import token_bytes
from kveval.memory.layers import Layer, StateLayer

# With prefix caching a state is kept twice: the running one and the checkpoint at the last block's end.
_STATE_BLOCKS = 2
_KERNEL_BLOCK_TOKENS = {"gpu": 16, "cpu": 32}
_LATENT_HYBRID_BLOCK_TOKENS = 128
# Padding that lifts fewer than half as many layers again is cheaper than more groups.
_PADDING_RATIO = 1.5


def _blocks(tokens: int, block_tokens: int) -> int:
    return -(-tokens // block_tokens)


def default_block_tokens(architecture: Architecture, device: str) -> int:
    """vLLM's block size where none is asked for (vllm/config/cache.py, vllm/platforms/cpu.py)."""
    return 16 if device == "gpu" or architecture.is_latent else 128


@dataclass(frozen=True, slots=True)
class _Page:
    """One layer's part of a block."""

    layer: Layer
    block_tokens: int
    page_bytes: int

    def type(self) -> tuple[str, int | None, int]:
        """Layers of one type always need the same number of blocks."""
        if isinstance(self.layer, StateLayer):
            return ("state", None, self.block_tokens)
        return (self.layer.span, self.layer.span_tokens, self.block_tokens)

    def blocks(self, tokens: int, in_flight_tokens: int) -> int:
        """`max_admission_blocks_per_request`: what a sequence is counted with while `in_flight_tokens` are computed."""
        if isinstance(self.layer, StateLayer):
            return _STATE_BLOCKS
        span = self.layer.span_tokens
        if self.layer.span == "full" or span is None:
            return _blocks(tokens, self.block_tokens)
        if self.layer.span == "chunked":
            return _blocks(min(span + in_flight_tokens, tokens), self.block_tokens)
        # A window need not begin where a block does.
        return _blocks(min(span - 1 + in_flight_tokens, tokens), self.block_tokens) + 1

    def blocks_decoding(self, tokens: int) -> int:
        """What a sequence of `tokens` holds while it decodes: never more blocks than its tokens fill."""
        if isinstance(self.layer, StateLayer):
            return _STATE_BLOCKS
        return min(self.blocks(tokens, 1), _blocks(tokens, self.block_tokens))


@dataclass(frozen=True, slots=True)
class BlockPool:
    """One pool of equal blocks, from which every group of layers takes its own.

    Attributes:
        block_bytes: of one block, for all layers of a group.
        block_tokens: of a full-attention block; larger than asked for where a state must fit into one.
        groups: (a layer's page, how many groups are like it).
    """

    block_bytes: int
    block_tokens: int
    groups: tuple[tuple[_Page, int], ...]

    def sequence_blocks(self, tokens: int) -> int:
        """Blocks a sequence of `tokens` holds while it decodes."""
        return sum(page.blocks_decoding(tokens) * count for page, count in self.groups)

    def counted_blocks(self, tokens: int, in_flight_tokens: int) -> int:
        """Blocks vLLM counts for a sequence of `tokens` when it states its capacity and admits requests."""
        return sum(page.blocks(tokens, in_flight_tokens) * count for page, count in self.groups)

    def blocks_in(self, cache_bytes: int) -> int:
        return cache_bytes // self.block_bytes


def make_pool(architecture: Architecture, dtype: CacheDtype, block_tokens: int, device: str = "gpu") -> BlockPool:
    """The pool vLLM makes for `architecture` in `dtype`.

    Args:
        block_tokens: as asked for.
        device: gpu or cpu.
    """
    largest = max(token_bytes(dtype, layer) for layer in architecture.attention)
    states = [layer.state_bytes for layer in architecture.layers if isinstance(layer, StateLayer)]
    if states:
        block_tokens = _aligned(architecture, max(states), largest, block_tokens, device)
    pages = [
        _Page(layer, block_tokens, largest * block_tokens)
        if isinstance(layer, StateLayer)
        else _Page(layer, block_tokens, token_bytes(dtype, layer) * block_tokens)
        for layer in architecture.layers
    ]
    if len({page.type() for page in pages}) == 1:
        return BlockPool(sum(page.page_bytes for page in pages), block_tokens, ((pages[0], 1),))
    return _grouped([_unified(page, max(p.page_bytes for p in pages)) for page in pages], block_tokens)


def _aligned(architecture: Architecture, state: int, token_bytes: int, block_tokens: int, device: str) -> int:
    """The block grows until a layer's page holds a state; the state is padded to that page."""
    kernel = _KERNEL_BLOCK_TOKENS[device]
    step = max(kernel, block_tokens, _LATENT_HYBRID_BLOCK_TOKENS if architecture.is_latent else 0)
    needed = step * ceil(state / (step * token_bytes))
    return max(block_tokens, kernel * ceil(needed / kernel))


def _unified(page: _Page, page_bytes: int) -> _Page:
    """Smaller pages take more tokens where that fills the largest, else padding."""
    if isinstance(page.layer, StateLayer) or page_bytes % page.page_bytes:
        return replace(page, page_bytes=page_bytes)
    return replace(page, page_bytes=page_bytes, block_tokens=page.block_tokens * (page_bytes // page.page_bytes))


def _grouped(pages: list[_Page], block_tokens: int) -> BlockPool:
    """Groups of equally many layers of one kind, the last of a kind padded.

    The number of layers is that of the rarest kind, unless the commonest has less than half as many again.
    """
    buckets = Counter(pages)
    fewest, most = min(buckets.values()), max(buckets.values())
    size = most if most < fewest * _PADDING_RATIO else fewest
    groups = tuple((page, _blocks(count, size)) for page, count in buckets.items())
    widest = max(_blocks(count, _blocks(count, size)) for count in buckets.values())
    return BlockPool(widest * pages[0].page_bytes, block_tokens, groups)
