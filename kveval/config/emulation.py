"""What K and V are rounded to before they are stored: the configuration's ``variants.*.emulate``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from kveval.config.values import StrictModel
from kveval.formats.backends import stores_fnuz
from kveval.formats.codec import FP8_E4M3, FP8_E4M3FNUZ
from kveval.formats.granularity import Granularity
from kveval.formats.registry import CACHE_DTYPES, find_codec


class EmulationConfig(StrictModel):
    """Round K and V to `format` before they are stored on the baseline's kernel.

    Attributes:
        format: a name in `kveval.formats.registry.CODECS`.
        granularity: how many values share one scale: per_tensor, per_head, per_token_head, per_channel, per_block_N.
            The default depends on the format: per_token_head for int8, int4, int2 and fp8.
        layers: decoder layers that are rounded, counted from 0; None = all.
        scale: a fixed scale for ``per_tensor``. Without one, fp8 uses 1.0. Every other scale that spans tokens is
            taken from the first tokens of the first request and kept, as a calibrated scale would be. A scale taken
            from each write instead would change with prefill chunks and batches.
    """

    format: Annotated[str, AfterValidator(lambda name: find_codec(name).name)]
    granularity: Annotated[str, AfterValidator(lambda name: Granularity.parse(name).name)] = Field(
        default_factory=lambda earlier: find_codec(earlier["format"]).granularity
    )
    layers: Annotated[tuple[Annotated[int, Field(ge=0, strict=True)], ...], Field(min_length=1)] | None = None
    scale: Annotated[float, Field(ge=1e-6, strict=True)] | None = None

    @field_validator("layers")
    @classmethod
    def _sorted_layers(cls, layers: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return None if layers is None else tuple(sorted(set(layers)))

    @model_validator(mode="after")
    def _scale_only_per_tensor(self) -> EmulationConfig:
        if self.scale is not None and self.granularity != "per_tensor":
            raise ValueError(f"scale {self.scale} needs granularity 'per_tensor', not {self.granularity!r}")
        return self

    @property
    def constant_scale(self) -> float | None:
        """The scale of every tensor, where it is a constant; None where it is taken from the tensors."""
        default = find_codec(self.format).tensor_scale if self.granularity == "per_tensor" else None
        return default if self.scale is None else self.scale

    @property
    def is_calibrated(self) -> bool:
        """Whether scales are taken from the first request and kept: they span tokens, and are no constant."""
        return self.constant_scale is None and not Granularity.parse(self.granularity).is_within_token


def emulation_of(dtype: str, architecture: str | None = None) -> EmulationConfig | None:
    """Return the rounding that stands in for a native cache of `dtype`; None when kveval has none.

    The scales are those of a checkpoint without k/v scales.

    Args:
        architecture: of the GPU whose native cache it is; None = any but AMD's gfx94.
    """
    entry = CACHE_DTYPES.get(dtype)
    if entry is None or entry.rounding is None:
        return None
    codec, rounding = entry.rounding.codec, entry.rounding
    if codec is FP8_E4M3 and stores_fnuz(architecture):
        codec = FP8_E4M3FNUZ
    return EmulationConfig(
        format=codec.name, granularity=rounding.granularity or codec.granularity, scale=rounding.scale
    )


def native_dtype(emulated: EmulationConfig) -> str | None:
    """Return the cache dtype of vLLM that stores what `emulated` rounds to; None when vLLM has none."""
    meant = emulated.model_copy(update={"scale": emulated.constant_scale})
    return next(
        (name for name, entry in CACHE_DTYPES.items() if entry.is_in_vllm and emulation_of(name) == meant), None
    )
