"""Logprobs that name tokens by their text, as if they had named them by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def named_by_id(event: Mapping[str, Any], ids: Mapping[str, int]) -> tuple[dict[str, Any], bool]:
    """An event of a completion with ``token_id:N`` in place of texts, and whether every token in its output has an id.

    Alternatives without an id are left out. A token in the output without one takes the event's logprobs with it: what
    is left would stand at other positions.

    Args:
        ids: of every token whose text no other token has.

    Raises:
        AttributeError, TypeError, LookupError: not what a completion endpoint sends.
    """
    choices = list(_named(event.get("choices") or (), ids))
    return {**event, "choices": [choice for choice, _ in choices]}, all(whole for _, whole in choices)


def _named(choices: Any, ids: Mapping[str, int]) -> Iterator[tuple[dict[str, Any], bool]]:
    for choice in choices:
        logprobs = choice.get("logprobs")
        if not logprobs:
            yield choice, True
            continue
        tokens = logprobs["tokens"]
        if not all(token in ids for token in tokens):
            yield {**choice, "logprobs": None}, False
            continue
        top = [
            {f"token_id:{ids[token]}": value for token, value in (row or {}).items() if token in ids}
            for row in logprobs.get("top_logprobs") or ()
        ]
        yield {**choice, "logprobs": {"tokens": [f"token_id:{ids[t]}" for t in tokens], "top_logprobs": top}}, True
