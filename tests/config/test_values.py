from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.config.values import parse_length


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("4k", 4096), ("4K", 4096), (" 128k ", 131072), ("1m", 1048576), ("4096", 4096), (4096, 4096), (1, 1)],
)
def test_lengths(text: Any, tokens: int) -> None:
    assert parse_length(text) == tokens


@pytest.mark.parametrize("text", ["4kk", "", "k", "-4k", "0", "0k", "4.5k", "4 k", "4g", True, None, 4.0, "1e3", [4]])
def test_what_is_no_length(text: Any) -> None:
    with pytest.raises(ValueError, match="is not a context length; use tokens such as 4096, 4k"):
        parse_length(text)


@pytest.mark.parametrize("text", ["17m", "1000m", "99999999999"])
def test_a_length_no_model_reads(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than any model reads; use up to 16m"):
        parse_length(text)


@given(st.text(max_size=6))
def test_no_text_is_a_length_by_accident(text: str) -> None:
    try:
        assert parse_length(text) > 0
    except ValueError as error:
        assert repr(text) in str(error)  # noqa: PT017
