from __future__ import annotations

import pytest

from kveval.config.emulation import EmulationConfig, emulation_of, native_dtype
from kveval.formats.registry import CACHE_DTYPES, find_codec


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("fp8", EmulationConfig(format="fp8_e4m3", granularity="per_tensor", scale=1.0)),
        ("fp8_e5m2", EmulationConfig(format="fp8_e5m2", granularity="per_tensor", scale=1.0)),
        ("fp8_per_token_head", EmulationConfig(format="fp8_e4m3", granularity="per_token_head")),
        ("int8_per_token_head", EmulationConfig(format="int8", granularity="per_token_head")),
        ("int4", EmulationConfig(format="int4")),
        ("int4_per_token_head", None),
        ("turboquant_4bit_nc", None),
        ("mxfp4", None),
    ],
)
def test_what_stands_in_for_a_native_cache(dtype: str, expected: EmulationConfig | None) -> None:
    assert emulation_of(dtype) == expected


def test_the_granularity_is_the_formats_own_by_default() -> None:
    assert EmulationConfig(format="int8").granularity == find_codec("int8").granularity == "per_token_head"


@pytest.mark.parametrize(
    ("emulated", "native"),
    [
        (EmulationConfig(format="int8"), "int8_per_token_head"),
        (EmulationConfig(format="fp8_e4m3", granularity="per_tensor", scale=1.0), "fp8"),
        # Without a scale, fp8 per tensor is rounded at 1.0 too.
        (EmulationConfig(format="fp8_e4m3", granularity="per_tensor"), "fp8"),
        (EmulationConfig(format="fp8_e4m3", granularity="per_tensor", scale=0.5), None),
        (EmulationConfig(format="int8", granularity="per_tensor"), None),
        (EmulationConfig(format="int8", layers=(0,)), None),
        (EmulationConfig(format="int4"), None),
    ],
)
def test_the_dtype_that_stores_what_is_emulated(emulated: EmulationConfig, native: str | None) -> None:
    assert native_dtype(emulated) == native


@pytest.mark.parametrize("dtype", [name for name, entry in CACHE_DTYPES.items() if entry.rounding])
def test_every_rounding_of_the_registry_is_a_valid_configuration(dtype: str) -> None:
    assert emulation_of(dtype) is not None


@pytest.mark.parametrize(
    ("emulated", "scale"),
    [
        (EmulationConfig(format="fp8_e4m3", granularity="per_tensor"), 1.0),
        (EmulationConfig(format="fp8_e4m3", granularity="per_head"), None),
        (EmulationConfig(format="int8", granularity="per_tensor"), None),
        (EmulationConfig(format="int8", granularity="per_tensor", scale=0.5), 0.5),
    ],
)
def test_the_constant_scale(emulated: EmulationConfig, scale: float | None) -> None:
    assert emulated.constant_scale == scale
