"""What this machine's processor lets a real vLLM do."""

from __future__ import annotations

from typing import Any

import pytest

from kveval.engines.variants import Device, local_cpu_flags

HAS_FP8 = Device("cpu", local_cpu_flags()).has_native_fp8
"""True with AVX-512."""

needs_speed = pytest.mark.skipif(not HAS_FP8, reason="takes many minutes on a processor without AVX-512")
needs_fp8 = pytest.mark.skipif(not HAS_FP8, reason="this processor has no native FP8 cache")

# Without AVX-512, 16-bit models are so slow that these tests would take hours.
ENGINE_ARGS: dict[str, Any] = {} if HAS_FP8 else {"dtype": "float32"}
UNQUANTIZED = "bfloat16" if HAS_FP8 else "auto"
"""The cache dtype of a model that is launched with `ENGINE_ARGS`."""
