"""Which chunks hold tokens."""

from __future__ import annotations

import pytest

from kveval.engines.client.timing import Chunk, token_chunks

EMPTY, NAMED, SHOWN = Chunk(1.0, 0, False), Chunk(2.0, 1, False), Chunk(3.0, 0, True)


@pytest.mark.parametrize("forced_tokens", [None, 2, 4])
def test_a_chunk_holds_tokens_if_it_names_or_shows_some(forced_tokens: int | None) -> None:
    assert token_chunks([EMPTY, NAMED, SHOWN], forced_tokens) == [NAMED, SHOWN]


def test_where_there_are_as_many_chunks_as_tokens_each_is_one() -> None:
    assert token_chunks([EMPTY, SHOWN, EMPTY], 3) == [EMPTY, SHOWN, EMPTY]
