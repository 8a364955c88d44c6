import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kveval.formats.codec import SCALE_FLOOR
from kveval.formats.granularity import Granularity
from kveval.formats.registry import CODECS
from kveval.formats.rounding import fake_quantize, scale_of

FORMAT_NAMES = tuple(CODECS)
INT_FORMATS = tuple(name for name in CODECS if name.startswith("int"))
GRANULARITIES = ("per_tensor", "per_head", "per_channel", "per_token_head", "per_block_4")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# The first call of a torch operator is slow.
no_deadline = settings(deadline=None)


@st.composite
def caches(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = DTYPES, largest: float = 6e4) -> torch.Tensor:
    """K or V of a few tokens and heads, eight channels; every magnitude a float16 holds, zeros included."""
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 3)), 8)
    numbers = st.floats(-largest, largest, width=32)
    flat = draw(st.lists(numbers, min_size=math.prod(shape), max_size=math.prod(shape)))
    return torch.tensor(flat).reshape(shape).to(draw(st.sampled_from(dtypes)))


def grouped(x: torch.Tensor, granularity: str) -> torch.Tensor:
    return Granularity.parse(granularity).split(x.float())


def test_int8_per_token_head_by_hand() -> None:
    # absmax 127 gives scale 1; absmax 254 gives scale 2, so 5 is 2.5 steps and rounds away to 3.
    x = torch.tensor([[[127.0, 1.4, -1.5, 0.0]], [[-254.0, 5.0, 2.9, -0.9]]])

    assert fake_quantize(x, "int8", "per_token_head").tolist() == [
        [[127.0, 1.0, -2.0, 0.0]],
        [[-254.0, 6.0, 2.0, 0.0]],
    ]


def test_int4_granularities_by_hand() -> None:
    x = torch.tensor([[[7.0, 3.2, 0.4, -1.0], [14.0, 3.2, 0.4, -1.0]]])

    assert fake_quantize(x, "int4", "per_tensor").tolist() == [[[8.0, 4.0, 0.0, -2.0], [14.0, 4.0, 0.0, -2.0]]]
    assert fake_quantize(x, "int4", "per_head").tolist() == [[[7.0, 3.0, 0.0, -1.0], [14.0, 4.0, 0.0, -2.0]]]
    assert torch.equal(fake_quantize(x, "int4", "per_token_head"), fake_quantize(x, "int4", "per_head"))
    # Each channel is its own absmax here, which comes back up to float32's rounding.
    assert fake_quantize(x, "int4", "per_channel").tolist()[0][1] == pytest.approx([14.0, 3.2, 0.4, -1.0])
    # The second pair has scale 1 / 7: 0.4 is 2.8 steps and becomes 3 / 7.
    assert fake_quantize(x, "int4", "per_block_2")[0, 0].tolist() == pytest.approx([7.0, 3.0, 3 / 7, -1.0])


def test_int2_keeps_a_sign_or_nothing() -> None:
    x = torch.tensor([[[4.0, 2.0, 1.9, -1.9, -2.0, -4.0]]])

    assert fake_quantize(x, "int2", "per_token_head").tolist() == [[[4.0, 4.0, 0.0, 0.0, -4.0, -4.0]]]


def test_fp8_per_tensor_has_scale_one_as_vllm_without_count_scales() -> None:
    x = torch.tensor([[[1.0, 1.0625, 1.1, 500.0, -1e6, 2.0**-9, 2.0**-11]]])

    assert fake_quantize(x, "fp8_e4m3", "per_tensor").tolist() == [[[1.0, 1.0, 1.125, 448.0, -448.0, 2.0**-9, 0.0]]]
    assert scale_of(x, "fp8_e4m3", "per_tensor").item() == 1.0


def test_fp8_per_token_head_uses_the_whole_range() -> None:
    x = torch.tensor([[[896.0, 3.0]], [[4.48e-3, 1e-5]]])

    assert scale_of(x, "fp8_e4m3", "per_token_head").flatten().tolist() == pytest.approx([2.0, 1e-5])
    assert fake_quantize(x, "fp8_e4m3", "per_token_head")[0].tolist() == [[896.0, 3.0]]


def test_an_explicit_scale_saturates_what_is_beyond_it() -> None:
    x = torch.tensor([[[1.0, 100.0, -100.0]]])

    assert fake_quantize(x, "int8", "per_tensor", scale=0.5).tolist() == [[[1.0, 63.5, -64.0]]]
    assert fake_quantize(x, "fp8_e4m3", "per_tensor", scale=0.125).tolist() == [[[1.0, 56.0, -56.0]]]


@pytest.mark.parametrize("cache_format", FORMAT_NAMES)
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_given_scale_equal_to_the_own_one_changes_nothing(cache_format: str, granularity: str) -> None:
    x = torch.randn(5, 2, 8, generator=torch.Generator().manual_seed(0))
    scale = scale_of(x, cache_format, granularity)

    assert torch.equal(fake_quantize(x, cache_format, granularity, scale), fake_quantize(x, cache_format, granularity))


@pytest.mark.parametrize("cache_format", FORMAT_NAMES)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_stay_zeros(cache_format: str, granularity: str, dtype: torch.dtype) -> None:
    x = torch.zeros(3, 2, 8, dtype=dtype)

    assert torch.equal(fake_quantize(x, cache_format, granularity), x)


@pytest.mark.parametrize("cache_format", FORMAT_NAMES)
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_nan_and_infinity_touch_no_other_element(cache_format: str, granularity: str) -> None:
    x = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(0))
    x[0, 0, :3] = 0.0
    broken = x.clone()
    broken[0, 0, :3] = torch.tensor([float("nan"), float("inf"), float("-inf")])
    rounded = fake_quantize(broken, cache_format, granularity)

    expected = fake_quantize(x, cache_format, granularity)
    assert rounded[0, 0, 0].isnan()
    assert rounded[0, 0, 1].isfinite()
    assert rounded[0, 0, 1] > 0
    assert rounded[0, 0, 2].isfinite()
    assert rounded[0, 0, 2] < 0
    rounded[0, 0, :3] = 0.0
    assert torch.equal(rounded, expected)


@pytest.mark.parametrize("cache_format", FORMAT_NAMES)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_finite_numbers_stay_finite(cache_format: str, granularity: str, dtype: torch.dtype) -> None:
    limit = torch.finfo(dtype).max
    x = torch.tensor([[[limit, -limit, 1.0, 0.0]]], dtype=dtype)

    assert fake_quantize(x, cache_format, granularity).isfinite().all()


@no_deadline
@given(caches(), st.sampled_from(FORMAT_NAMES), st.sampled_from(GRANULARITIES))
def test_shape_dtype_and_input_are_preserved(x: torch.Tensor, cache_format: str, granularity: str) -> None:
    before = x.clone()
    rounded = fake_quantize(x, cache_format, granularity)

    assert rounded.shape == x.shape
    assert rounded.dtype == x.dtype
    assert rounded.isfinite().all()
    assert torch.equal(x, before)


@no_deadline
@given(caches(dtypes=(torch.float32,)), st.sampled_from(INT_FORMATS), st.sampled_from(GRANULARITIES))
def test_integers_are_off_by_at_most_half_a_step(x: torch.Tensor, cache_format: str, granularity: str) -> None:
    error = grouped((fake_quantize(x, cache_format, granularity) - x).abs(), granularity)
    bound = scale_of(x, cache_format, granularity) / 2

    # A few float32 roundings of the element and of its code come on top.
    assert (error <= bound + 4e-7 * grouped(x, granularity).abs() + 1e-6 * bound).all()


@no_deadline
@given(caches(dtypes=(torch.float32,)), st.sampled_from(("per_head", "per_token_head", "per_block_4")))
def test_fp8_is_off_by_at_most_a_sixteenth(x: torch.Tensor, granularity: str) -> None:
    error = grouped((fake_quantize(x, "fp8_e4m3", granularity) - x).abs(), granularity)
    smallest_step = 2.0**-9 * scale_of(x, "fp8_e4m3", granularity)

    assert (error <= grouped(x, granularity).abs() * (2.0**-4 + 1e-6) + smallest_step / 2 * (1 + 1e-6)).all()


@no_deadline
@given(caches(), st.sampled_from(("fp8_e4m3", "fp8_e5m2")))
def test_fp8_at_scale_one_is_idempotent(x: torch.Tensor, cache_format: str) -> None:
    once = fake_quantize(x, cache_format, "per_tensor")

    assert torch.equal(fake_quantize(once, cache_format, "per_tensor"), once)


@no_deadline
@given(caches(dtypes=(torch.bfloat16, torch.float16)), st.sampled_from(INT_FORMATS), st.sampled_from(GRANULARITIES))
def test_integers_in_half_precision_are_idempotent(x: torch.Tensor, cache_format: str, granularity: str) -> None:
    # absmax returns exactly, and rounding code * scale to half precision moves it by less than half a step. Below
    # the floor absmax does not return, and in float32 the scale itself wobbles in its last bit.
    scale = scale_of(x, cache_format, granularity)
    once = fake_quantize(x, cache_format, granularity)
    twice = fake_quantize(once, cache_format, granularity)

    is_above_floor = (scale > SCALE_FLOOR).expand_as(grouped(x, granularity))
    assert torch.equal(grouped(twice, granularity)[is_above_floor], grouped(once, granularity)[is_above_floor])


@no_deadline
@given(caches(), st.sampled_from(FORMAT_NAMES), st.sampled_from(("per_token_head", "per_block_4")))
def test_a_token_does_not_depend_on_its_neighbours(x: torch.Tensor, cache_format: str, granularity: str) -> None:
    together = fake_quantize(x, cache_format, granularity)
    alone = torch.cat([fake_quantize(token, cache_format, granularity) for token in x.split(1)])

    assert torch.equal(together, alone)


@no_deadline
@given(caches(), st.sampled_from(FORMAT_NAMES))
def test_a_head_does_not_depend_on_another(x: torch.Tensor, cache_format: str) -> None:
    together = fake_quantize(x, cache_format, "per_head")
    alone = torch.cat([fake_quantize(head, cache_format, "per_head") for head in x.split(1, dim=1)], dim=1)

    assert torch.equal(together, alone)


@no_deadline
@given(caches(), st.sampled_from(FORMAT_NAMES), st.sampled_from(GRANULARITIES))
def test_rounding_keeps_signs_and_negates_with_its_input(x: torch.Tensor, cache_format: str, granularity: str) -> None:
    rounded = fake_quantize(x, cache_format, granularity)

    assert (rounded * x.sign() >= 0).all()
    assert torch.equal(fake_quantize(-x, cache_format, granularity), -rounded)


def test_a_strided_view_is_rounded_like_its_copy() -> None:
    packed = torch.randn(6, 3, 16, dtype=torch.bfloat16, generator=torch.Generator().manual_seed(0))
    view = packed[:, 1:, :8]

    assert torch.equal(
        fake_quantize(view, "int8", "per_block_4"), fake_quantize(view.contiguous(), "int8", "per_block_4")
    )


def test_no_tokens_are_no_tokens() -> None:
    assert fake_quantize(torch.empty(0, 2, 8), "int8", "per_tensor").shape == (0, 2, 8)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e-9, float("inf"), float("nan")])
def test_a_scale_must_be_usable(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be a finite number of at least 1e-06"):
        fake_quantize(torch.zeros(1, 1, 8), "int8", "per_tensor", scale)


@pytest.mark.parametrize("x", [torch.zeros(2, 8), torch.zeros(1, 1, 8, dtype=torch.int32)])
def test_what_is_not_a_cache_write_is_refused(x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"x must be \[num_tokens, num_kv_heads, head_size\]"):
        fake_quantize(x, "int8", "per_tensor")
