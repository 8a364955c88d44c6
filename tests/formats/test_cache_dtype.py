from __future__ import annotations

import pytest

from kveval.formats.cache_dtype import CacheDtype
from kveval.formats.layout import FixedLayout, Layout

PLAIN = CacheDtype("plain", 16, "none", layout=Layout(16))
TRITON = CacheDtype("triton", 8, "dynamic", backends=("TRITON_ATTN",), latent=FixedLayout(576, 656))
CPU = CacheDtype("cpu", 8, "per_tensor", backends=("TRITON_ATTN", "CPU_ATTN"), unsized="nobody knows")


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
