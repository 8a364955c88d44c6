"""Whether the times at which the chunks of an answer arrived say anything about its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

# An answer of fewer tokens may well arrive at once.
_LEAST_TOKENS = 8
# Below this time to the first chunk, what a buffer adds to it is not worth a word.
_LEAST_WAIT_MS = 20.0
# No model makes tokens faster, one after the other: chunks that are closer together waited for each other.
_TOGETHER_MS = 0.5
# Chunks that arrive together on average, if something on the way collects them.
_COLLECTED_CHUNKS = 4


def arrived_at_once(token_ms: Sequence[float], output_tokens: int) -> bool:
    """Returns whether something between model and client collected the chunks of an answer.

    The first of them then says nothing about the first token, and the gaps nothing about the tokens after it.
    """
    if output_tokens < _LEAST_TOKENS or not token_ms or token_ms[0] < _LEAST_WAIT_MS:
        return False
    arrivals = 1 + sum(after - before > _TOGETHER_MS for before, after in pairwise(token_ms))
    return arrivals == 1 or len(token_ms) >= _COLLECTED_CHUNKS * arrivals
