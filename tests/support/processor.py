"""What this machine's processor lets a real vLLM do."""

from __future__ import annotations

import pytest

from kveval.engines.variants import Device, local_cpu_flags

HAS_FP8 = Device("cpu", local_cpu_flags()).has_native_fp8
"""True with AVX-512. Without it, vLLM's CPU build also computes 16-bit models several times slower."""

needs_fp8 = pytest.mark.skipif(not HAS_FP8, reason="this processor has no native FP8 cache")
needs_speed = pytest.mark.skipif(not HAS_FP8, reason="takes most of an hour on a processor without AVX-512")
