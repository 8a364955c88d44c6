"""Codes against grids written out from the specifications, value by value."""

import itertools

import pytest
import torch

from kveval.formats.registry import CODECS

EVERY_BFLOAT16 = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16).float()


def ocp_magnitudes(exponent_bits: int, mantissa_bits: int, bias: int, largest: float) -> list[float]:
    """Finite magnitudes of an OCP FP8 format in the order of their codes (OCP 8-bit specification, table 1)."""
    magnitudes = []
    for exponent, mantissa in itertools.product(range(2**exponent_bits), range(2**mantissa_bits)):
        fraction = mantissa / 2**mantissa_bits
        value = fraction * 2.0 ** (1 - bias) if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias)
        if value <= largest:
            magnitudes.append(value)
    return magnitudes


def nearest_even(x: torch.Tensor, magnitudes: list[float]) -> torch.Tensor:
    """Each finite or infinite `x` to the nearest of ±`magnitudes`; of two equally near, the even code."""
    grid = torch.tensor(magnitudes, dtype=torch.float64)
    magnitude = x.double().abs().clamp(max=grid[-1])
    above = torch.searchsorted(grid, magnitude).clamp(max=len(grid) - 1)
    below = (above - 1).clamp(min=0)
    to_above, to_below = grid[above] - magnitude, magnitude - grid[below]
    is_above = (to_above < to_below) | ((to_above == to_below) & (above % 2 == 0))
    return torch.copysign(torch.where(is_above, grid[above], grid[below]), x.double()).float()


OCP = {
    "fp8_e4m3": ocp_magnitudes(exponent_bits=4, mantissa_bits=3, bias=7, largest=448.0),
    "fp8_e5m2": ocp_magnitudes(exponent_bits=5, mantissa_bits=2, bias=15, largest=57344.0),
    # Not of OCP: the format of AMD's gfx94.
    "fp8_e4m3fnuz": ocp_magnitudes(exponent_bits=4, mantissa_bits=3, bias=8, largest=240.0),
}
TORCH_DTYPE = {
    "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2, "fp8_e4m3fnuz": torch.float8_e4m3fnuz,
}  # fmt: skip


@pytest.mark.parametrize("name", OCP)
def test_fp8_rounds_every_bfloat16_to_nearest_even_and_saturates(name: str) -> None:
    numbers = EVERY_BFLOAT16[~EVERY_BFLOAT16.isnan()]

    rounded = CODECS[name].round(numbers)

    assert torch.equal(rounded, nearest_even(numbers, OCP[name]))
    has_sign = rounded != 0 if name.endswith("fnuz") else torch.ones_like(rounded, dtype=torch.bool)
    assert torch.equal(rounded.signbit(), numbers.signbit() & has_sign)


@pytest.mark.parametrize("name", OCP)
def test_fp8_equals_torch_wherever_torch_stays_finite(name: str) -> None:
    by_torch = EVERY_BFLOAT16.to(TORCH_DTYPE[name]).float()
    rounded = CODECS[name].round(EVERY_BFLOAT16)

    is_finite = by_torch.isfinite()
    assert torch.equal(rounded[is_finite], by_torch[is_finite])
    beyond = ~is_finite & ~EVERY_BFLOAT16.isnan()
    assert torch.equal(rounded[beyond], CODECS[name].max_code * EVERY_BFLOAT16[beyond].sign())


@pytest.mark.parametrize("name", OCP)
def test_fp8_codes_are_their_own_rounding(name: str) -> None:
    codes = torch.tensor(OCP[name])

    assert torch.equal(CODECS[name].round(codes), codes)
    assert codes[-1] == CODECS[name].max_code


@pytest.mark.parametrize("name", CODECS)
def test_nan_stays_nan(name: str) -> None:
    assert CODECS[name].round(EVERY_BFLOAT16[EVERY_BFLOAT16.isnan()]).isnan().all()


@pytest.mark.parametrize(
    ("name", "numbers", "codes"),
    [
        ("int8", [0.0, 0.49, 0.5, 1.5, 2.5, -0.5, -2.5, 126.5], [0, 0, 1, 2, 3, -1, -3, 127]),
        (
            "int8",
            [127.4, 127.6, 1e9, -127.6, -1e9, float("inf"), float("-inf")],
            [127, 127, 127, -128, -128, 127, -128],
        ),
        ("int4", [6.4, 6.5, 7.9, -7.4, -7.5, -9.0], [6, 7, 7, -7, -8, -8]),
        ("int2", [0.49, 0.5, 1.4, 9.0, -0.49, -0.5, -1.4, -1.5], [0, 1, 1, 1, 0, -1, -1, -2]),
    ],
)
def test_integers_round_half_away_from_zero_and_saturate(name: str, numbers: list[float], codes: list[float]) -> None:
    assert CODECS[name].round(torch.tensor(numbers)).tolist() == codes
