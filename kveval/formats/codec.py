"""How a quantized cache rounds a number to what it can store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import torch

SCALE_FLOOR = 1e-6
"""The smallest scale, as in vLLM's per-token-head store. It keeps a group of zeros at zero."""


@dataclass(frozen=True)
class Codec(ABC):
    """A set of codes that a cache stores in place of numbers.

    A new codec overrides :meth:`round`, and :meth:`scale` if a scale is rounded too.

    Attributes:
        name: as in the configuration's ``emulate.format``.
        max_code: the code to which the largest magnitude of a group is scaled.
        granularity: which numbers share a scale, where a configuration does not say; see
            `kveval.formats.granularity.Granularity`.
        tensor_scale: the scale of a whole tensor where none is given; None takes it from the tensor.
    """

    name: str
    max_code: float
    granularity: ClassVar[str] = "per_token_head"
    tensor_scale: ClassVar[float | None] = None

    @abstractmethod
    def round(self, codes: torch.Tensor) -> torch.Tensor:
        """Round each element of `codes` to the nearest code; float32 in and out, in the same shape.

        A number beyond the largest code becomes the largest code, and so does infinity. NaN stays NaN: a broken
        model must look broken.
        """

    def scale(self, absmax: torch.Tensor) -> torch.Tensor:
        """Return the scale of each group from its largest magnitude."""
        return (absmax / self.max_code).clamp_(min=SCALE_FLOOR)


class IntCodec(Codec):
    """Symmetric integers from -max_code - 1 to max_code, without a zero point.

    Rounds half away from zero, as vLLM's int8_per_token_head does before its store truncates
    (``_reshape_cache_per_token_head`` in vllm/v1/attention/ops/triton_reshape_and_cache_flash.py). int4 and int2
    follow the same rule, so int2 uses three codes: -1, 0 and 1. vLLM's int4_per_token_head is another format: it
    rotates K and V and stores a zero point.
    """

    def round(self, codes: torch.Tensor) -> torch.Tensor:
        away_from_zero = codes + 0.5 * codes.sign()
        return away_from_zero.clamp_(-self.max_code - 1, self.max_code).trunc_()


@dataclass(frozen=True)
class FloatCodec(Codec):
    """An 8-bit float of the OCP FP8 specification, or of AMD's gfx94, rounded to nearest even.

    A magnitude beyond max_code becomes max_code (CUDA's ``__NV_SATFINITE``). Torch's own cast gives NaN (e4m3) or
    infinity (e5m2) there. A tensor has scale 1.0 where none is given, as in vLLM without scales in the checkpoint.
    """

    torch_dtype: str
    tensor_scale: ClassVar[float | None] = 1.0

    def round(self, codes: torch.Tensor) -> torch.Tensor:
        import torch

        return codes.clamp(-self.max_code, self.max_code).to(getattr(torch, self.torch_dtype)).float()


INT8 = IntCodec("int8", 127.0)
INT4 = IntCodec("int4", 7.0)
INT2 = IntCodec("int2", 1.0)
FP8_E4M3 = FloatCodec("fp8_e4m3", 448.0, "float8_e4m3fn")
# What vLLM's fp8 is on gfx94 (`is_fp8_fnuz` in vllm/platforms/rocm.py): another exponent bias, and no negative zero.
FP8_E4M3FNUZ = FloatCodec("fp8_e4m3fnuz", 240.0, "float8_e4m3fnuz")
FP8_E5M2 = FloatCodec("fp8_e5m2", 57344.0, "float8_e5m2")
