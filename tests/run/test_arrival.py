"""Which answers were collected on their way."""

from __future__ import annotations

import pytest

from kveval.run.arrival import arrived_at_once


@pytest.mark.parametrize(
    ("token_ms", "output_tokens"),
    [
        ([800.0] * 20, 20),
        ([800.0 + 0.1 * number for number in range(20)], 20),
        # All tokens in one chunk.
        ([800.0], 20),
        ([800.0, 800.2, 800.3], 20),
        # A buffer that is sent when it is full.
        ([200.0] * 7 + [400.0] * 7 + [500.0] * 6, 20),
    ],
)
def test_chunks_that_waited_for_each_other(token_ms: list[float], output_tokens: int) -> None:
    assert arrived_at_once(token_ms, output_tokens)


@pytest.mark.parametrize(
    ("token_ms", "output_tokens"),
    [
        ([], 20),
        ([800.0 + 2 * number for number in range(20)], 20),
        # Four tokens in each chunk, as a server sends that drafts or collects steps.
        ([100.0, 150.0, 200.0, 250.0, 300.0], 20),
        # Two chunks now and then that the client read together.
        ([100.0, 105.0, 105.0, 110.0, 115.0, 115.0, 120.0, 125.0], 8),
        # So few tokens may come at once.
        ([800.0] * 7, 7),
        # There was nothing to wait for.
        ([3.0] * 20, 20),
    ],
)
def test_chunks_that_came_one_by_one(token_ms: list[float], output_tokens: int) -> None:
    assert not arrived_at_once(token_ms, output_tokens)
