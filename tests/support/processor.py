"""What this machine's processor lets a real vLLM do."""

from __future__ import annotations

from typing import Any

import pytest

from kveval.engines.variants import Device, local_cpu_flags

_HAS_AVX512 = Device("cpu", local_cpu_flags()).has_native_fp8
needs_avx512 = pytest.mark.skipif(
    not _HAS_AVX512, reason="without AVX-512 there is no native FP8 cache, and a 16-bit model takes minutes a question"
)

# What other tests of a real engine launch, so that they end in minutes on any processor.
ENGINE_ARGS: dict[str, Any] = {} if _HAS_AVX512 else {"dtype": "float32"}
UNQUANTIZED = "bfloat16" if _HAS_AVX512 else "auto"
"""The cache dtype of a model that is launched with `ENGINE_ARGS`."""
