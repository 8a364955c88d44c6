import pytest
import torch

from kveval.formats.granularity import Granularity

X = torch.tensor([[[1.0, -2.0, 3.0, 4.0], [0.5, 0.0, -0.25, 0.0]], [[-8.0, 0.0, 0.0, 1.0], [2.0, 2.0, 2.0, -6.0]]])
"""Two tokens, two heads, four channels."""


@pytest.mark.parametrize(
    ("name", "absmax"),
    [
        ("per_tensor", [[[[8.0]]]]),
        ("per_head", [[[[8.0]], [[6.0]]]]),
        ("per_channel", [[[[8.0, 2.0, 3.0, 4.0]], [[2.0, 2.0, 2.0, 6.0]]]]),
        ("per_token_head", [[[[4.0]], [[0.5]]], [[[8.0]], [[6.0]]]]),
        ("per_block_2", [[[[2.0], [4.0]], [[0.5], [0.25]]], [[[8.0], [1.0]], [[2.0], [6.0]]]]),
    ],
)
def test_absmax_of_each_group(name: str, absmax: list) -> None:
    grouping = Granularity.parse(name)
    groups = grouping.split(X)

    assert grouping.absmax(groups).tolist() == absmax
    assert groups.flatten(-2).equal(X)
    assert grouping.name == name


def test_absmax_ignores_what_is_not_finite() -> None:
    x = torch.tensor([[[1.0, float("nan"), float("-inf"), -3.0]]])
    grouping = Granularity.parse("per_token_head")

    assert grouping.absmax(grouping.split(x)).item() == 3.0


@pytest.mark.parametrize("name", ["per_tensor", "per_head", "per_channel"])
def test_scales_that_span_tokens_are_known_as_such(name: str) -> None:
    assert not Granularity.parse(name).is_within_token


@pytest.mark.parametrize("name", ["per_token_head", "per_block_32"])
def test_scales_within_a_token_are_known_as_such(name: str) -> None:
    assert Granularity.parse(name).is_within_token


@pytest.mark.parametrize("name", ["per_token", "per_block", "per_block_0", "per_block(32)", "per_block_-1", ""])
def test_an_unknown_granularity_is_named_with_what_is_allowed(name: str) -> None:
    with pytest.raises(ValueError, match="unknown granularity") as raised:
        Granularity.parse(name)

    assert repr(name) in str(raised.value)
    assert "per_token_head" in str(raised.value)
    assert "per_block_32" in str(raised.value)


def test_a_block_must_divide_the_head() -> None:
    with pytest.raises(ValueError, match="'per_block_3' needs a head size that its block divides, not 4"):
        Granularity.parse("per_block_3").split(X)
