"""Which chunks of a stream hold tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Chunk(NamedTuple):
    """One event of a stream.

    Attributes:
        at_ms: its arrival, milliseconds after the request was sent.
        named_tokens: output tokens that the server names in it.
        has_output: it has text, a part of the reasoning or of a tool call.
    """

    at_ms: float
    named_tokens: int
    has_output: bool


def token_chunks(chunks: Sequence[Chunk], forced_tokens: int | None) -> list[Chunk]:
    """Returns the chunks that hold tokens.

    A token that ends inside a character has no text yet, as many do that follow a random prompt. But servers also send
    events without text that hold no token, such as a first one with the role.

    Args:
        forced_tokens: tokens of an output that the model could not end. If there are as many chunks, each is a token.
    """
    if len(chunks) == forced_tokens:
        return list(chunks)
    return [chunk for chunk in chunks if chunk.named_tokens or chunk.has_output]
