"""Renames tokens in logprobs: from their texts to their ids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def named_by_id(event: Mapping[str, Any], ids: Mapping[str, int]) -> tuple[dict[str, Any], bool]:
    """Returns the event with ``token_id:N`` in place of texts, and whether every output token has an id.

    Alternatives without an id are left out. If an output token has no id, all logprobs of the event are left out:
    the rest would stand at wrong positions.

    Args:
        ids: id by text, of every token whose text no other token has.

    Raises:
        AttributeError, TypeError, LookupError: this is not what a completion endpoint sends.
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
