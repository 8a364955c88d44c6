"""What kveval knows of one cache dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kveval.formats.backends import is_stored_on
from kveval.formats.codec import Codec

Scaling = Literal["none", "per_tensor", "dynamic"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Numbers of the same width, with a scale beside each group.

    Attributes:
        bits: of one number.
        scale_bytes: of one scale.
        group_size: numbers that share a scale; None = the whole vector.
    """

    bits: int
    scale_bytes: int = 0
    group_size: int | None = None

    def vector_bytes(self, size: int) -> int:
        """Return the bytes of a vector of `size` numbers."""
        groups = size // self.group_size if self.group_size else min(size, 1)
        return size * self.bits // 8 + groups * self.scale_bytes

    def misfit(self, size: int) -> str | None:
        """Say why a vector of `size` numbers cannot be stored; None when it can."""
        multiple = self.group_size or max(1, 8 // self.bits)
        return f"needs a head size that is a multiple of {multiple}, not {size}" if size % multiple else None


@dataclass(frozen=True, slots=True)
class FixedLayout:
    """Parts of several widths that make up a vector of one size."""

    size: int
    total_bytes: int

    def vector_bytes(self, size: int) -> int:
        return self.total_bytes * size // self.size

    def misfit(self, size: int) -> str | None:
        return None if size == self.size else f"is made for {self.size} latent values, not {size}"


@dataclass(frozen=True, slots=True)
class Rounding:
    """Rounding K and V so that attention reads the numbers a cache of this dtype holds.

    Attributes:
        granularity: which numbers share a scale; None = the codec's own.
        scale: a fixed scale; None takes it from the numbers.
    """

    codec: Codec
    granularity: str | None = None
    scale: float | None = None


@dataclass(frozen=True, slots=True)
class CacheDtype:
    """One cache dtype.

    Attributes:
        name: as ``--kv-cache-dtype`` takes it.
        bits: of one stored number, the average of K and V, without scales; None where the model decides.
        scaling: none: stores what the model computes. per_tensor: two numbers per layer, from the checkpoint, else
            1.0. dynamic: computed from the numbers as they are stored.
        scales: what is stored beside the numbers, for people.
        aliases: shorter names in a configuration. The alias of a quantized dtype also asks to emulate it where the
            engine lacks it.
        same_as: another dtype of which this one is only another name.
        rounding: how kveval emulates it; None where it cannot.
        layout: of K, and of V, of one head and token; None where vLLM stores no heads in this dtype.
        latent: of one token's latent (MLA) vector; None where vLLM stores none in this dtype.
        unsized: why kveval cannot size the cache, where it has neither layout.
        is_in_vllm: whether vLLM takes it. Other dtypes are emulated, or stored by other engines.
        is_common: whether `kveval memory` shows it unasked.
    """

    name: str
    bits: float | None
    scaling: Scaling
    scales: str = "none"
    aliases: tuple[str, ...] = ()
    same_as: str | None = None
    rounding: Rounding | None = None
    layout: Layout | None = None
    latent: Layout | FixedLayout | None = None
    unsized: str | None = None
    is_in_vllm: bool = True
    is_common: bool = False

    @property
    def is_sized(self) -> bool:
        """Whether kveval knows how many bytes a token takes."""
        return self.layout is not None or self.latent is not None

    @property
    def is_quantized(self) -> bool:
        """Whether the cache stores something other than what the model computes."""
        return self.scaling != "none"

    @property
    def is_native_on_cpu(self) -> bool:
        """Whether vLLM's CPU engine stores it. That engine checks no dtype and corrupts its cache with others."""
        return not self.is_quantized or is_stored_on(self.name, "cpu")
