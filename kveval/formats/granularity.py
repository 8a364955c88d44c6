"""Says which elements of K or V share one scale."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kveval.errors import nearest

if TYPE_CHECKING:
    import torch

# Dimensions of [num_tokens, num_kv_heads, num_blocks, block_channels] that one scale spans.
_SHARED_DIMS: dict[str, tuple[int, ...]] = {
    "per_tensor": (0, 1, 2, 3),
    "per_head": (0, 2, 3),
    "per_channel": (0,),
    "per_token_head": (3,),
    "per_block": (3,),
}
_NAMES = ("per_tensor", "per_head", "per_channel", "per_token_head", "per_block_N")


@dataclass(frozen=True)
class Granularity:
    """A way to cut K or V, [num_tokens, num_kv_heads, head_size], into groups with one scale each.

    ================  ==========================================  =================================
    name              one scale for                               used by
    ================  ==========================================  =================================
    per_tensor        all of it                                   vLLM ``fp8``
    per_head          each KV head                                checkpoints with per-head scales
    per_channel       each channel of each KV head                KIVI keys (without its token groups)
    per_token_head    each token of each KV head                  vLLM ``int8_per_token_head``
    per_block_N       N neighbouring channels of a token and head llama.cpp ``q8_0``, ``q4_0`` (N=32)
    ================  ==========================================  =================================

    Attributes:
        kind: the name without the block size.
        block_channels: channels in a block, None for the other kinds.
    """

    kind: str
    block_channels: int | None = None

    @classmethod
    def parse(cls, name: str) -> Granularity:
        """Return the granularity called `name`, such as ``per_block_32``. Raises ValueError: there is none."""
        block = re.fullmatch(r"per_block_([1-9]\d*)", name)
        if block:
            return cls("per_block", int(block[1]))
        if name == "per_block" or name not in _SHARED_DIMS:
            raise ValueError(
                f"unknown granularity {name!r}, {nearest(name, _NAMES)} (N channels, such as per_block_32)"
            )
        return cls(name)

    @property
    def name(self) -> str:
        return self.kind if self.block_channels is None else f"{self.kind}_{self.block_channels}"

    @property
    def is_within_token(self) -> bool:
        """Whether every scale belongs to one token. The codes of a token then depend on that token alone."""
        return 0 not in _SHARED_DIMS[self.kind]

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """View [num_tokens, num_kv_heads, head_size] as [num_tokens, num_kv_heads, num_blocks, block_channels]."""
        self.check_head_size(x.shape[-1])
        return x.reshape(*x.shape[:-1], -1, self.block_channels or x.shape[-1])

    def check_head_size(self, head_size: int) -> None:
        """Check that heads of `head_size` channels can be cut into these groups. Raises ValueError: they cannot."""
        if self.block_channels and head_size % self.block_channels:
            raise ValueError(f"granularity {self.name!r} needs a head size that its block divides, not {head_size}")

    def absmax(self, groups: torch.Tensor) -> torch.Tensor:
        """Return the largest finite magnitude of each group of a split tensor, in a shape that broadcasts to it."""
        finite = groups.abs().nan_to_num_(nan=0.0, posinf=0.0)
        return finite.amax(_SHARED_DIMS[self.kind], keepdim=True)
