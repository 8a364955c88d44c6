from __future__ import annotations

import pytest

from kveval.formats.cache_dtype import CacheDtype, FixedLayout, Layout

# 512 FP8 values, 4 float32 scales and 64 bfloat16 values.
DEEPSEEK = FixedLayout(576, 512 + 4 * 4 + 64 * 2)


@pytest.mark.parametrize(
    ("layout", "size", "expected"),
    [
        (Layout(16), 128, 256),
        (Layout(8, 4), 128, 128 + 4),
        (Layout(4, 4), 128, 64 + 4),
        (Layout(4, 1, 16), 128, 64 + 8),
        (Layout(8, 4), 0, 0),
        (DEEPSEEK, 576, 656),
    ],
)
def test_bytes_of_a_vector(layout: Layout | FixedLayout, size: int, expected: int) -> None:
    assert layout.vector_bytes(size) == expected


@pytest.mark.parametrize(
    ("layout", "size", "reason"),
    [
        (Layout(16), 7, None),
        (Layout(4, 4), 7, "needs a head size that is a multiple of 2, not 7"),
        (Layout(4, 1, 16), 72, "needs a head size that is a multiple of 16, not 72"),
        (Layout(4, 1, 16), 128, None),
        (DEEPSEEK, 576, None),
        (DEEPSEEK, 40, "is made for 576 latent values, not 40"),
    ],
)
def test_vectors_that_cannot_be_stored(layout: Layout | FixedLayout, size: int, reason: str | None) -> None:
    assert layout.misfit(size) == reason


PLAIN = CacheDtype("plain", 16, "none", layout=Layout(16))
TRITON = CacheDtype("int8_per_token_head", 8, "dynamic", latent=FixedLayout(576, 656))
CPU = CacheDtype("fp8", 8, "per_tensor", unsized="nobody knows")


@pytest.mark.parametrize(
    ("dtype", "is_quantized", "is_native_on_cpu", "is_sized"),
    [(PLAIN, False, True, True), (TRITON, True, False, True), (CPU, True, True, False)],
    ids=lambda value: value.name if isinstance(value, CacheDtype) else None,
)
def test_what_follows_from_an_entry(
    dtype: CacheDtype, is_quantized: bool, is_native_on_cpu: bool, is_sized: bool
) -> None:
    assert dtype.is_quantized == is_quantized
    assert dtype.is_native_on_cpu == is_native_on_cpu
    assert dtype.is_sized == is_sized
