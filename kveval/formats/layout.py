"""How many bytes a vector of numbers takes in a cache, scales included."""

from __future__ import annotations

from dataclasses import dataclass


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
        """Return the bytes of a vector of `size` numbers."""
        return self.total_bytes * size // self.size

    def misfit(self, size: int) -> str | None:
        """Say why a vector of `size` numbers cannot be stored; None when it can."""
        return None if size == self.size else f"is made for {self.size} latent values, not {size}"
