"""The codes a quantized cache can store, and how a real number becomes one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kveval.errors import nearest

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CacheFormat(ABC):
    """A set of codes. ``max_code`` is the code that the largest magnitude of a group is scaled to."""

    name: str
    max_code: float

    @abstractmethod
    def round(self, codes: torch.Tensor) -> torch.Tensor:
        """The stored code nearest to each element of `codes`, saturating; same shape, float32 in and out.

        Infinities saturate like any large number. NaN stays NaN: a broken model must look broken.
        """


class IntFormat(CacheFormat):
    """Symmetric integers -max_code - 1 ... max_code without a zero point.

    Rounds half away from zero, as vLLM's int8_per_token_head does before its store truncates
    (``_reshape_cache_per_token_head`` in vllm/v1/attention/ops/triton_reshape_and_cache_flash.py).
    int4 and int2 follow the same rule; int2 therefore has three codes in use, -1, 0 and 1. They are *not*
    vLLM's int4_per_token_head, which rotates K and V and stores a zero point.
    """

    def round(self, codes: torch.Tensor) -> torch.Tensor:
        away_from_zero = codes + 0.5 * codes.sign()
        return away_from_zero.clamp_(-self.max_code - 1, self.max_code).trunc_()


@dataclass(frozen=True)
class FloatFormat(CacheFormat):
    """An 8-bit float of the OCP FP8 specification, rounded to nearest even.

    Magnitudes beyond ±max_code become ±max_code (CUDA's ``__NV_SATFINITE``), where torch's own cast gives
    NaN (e4m3) or infinity (e5m2).
    """

    torch_dtype: str

    def round(self, codes: torch.Tensor) -> torch.Tensor:
        import torch

        return codes.clamp(-self.max_code, self.max_code).to(getattr(torch, self.torch_dtype)).float()


FORMATS: dict[str, CacheFormat] = {
    cache_format.name: cache_format
    for cache_format in (
        IntFormat("int8", 127.0),
        IntFormat("int4", 7.0),
        IntFormat("int2", 1.0),
        FloatFormat("fp8_e4m3", 448.0, "float8_e4m3fn"),
        FloatFormat("fp8_e5m2", 57344.0, "float8_e5m2"),
    )
}


def parse_format(name: str) -> CacheFormat:
    """The cache format called `name`.

    Raises:
        ValueError: no such format; the message lists the allowed names.
    """
    if name not in FORMATS:
        raise ValueError(f"unknown cache format {name!r}, {nearest(name, FORMATS)}")
    return FORMATS[name]
