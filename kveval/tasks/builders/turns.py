"""Writes a conversation between a user and an assistant as text, and reads it back as messages."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from kveval.tasks.builders.draws import seeded
from kveval.tasks.builders.sources import ElasticSource, TextSource

_PROMPTS = (
    "What have you read lately?",
    "Tell me something I do not know yet.",
    "Go on, please.",
    "What else is there to say?",
    "I have a few minutes. Tell me more.",
    "Let us talk about something else.",
    "Read me the next passage, please.",
    "That is interesting. What comes next?",
    "Can you give me another passage?",
    "While we wait, tell me something.",
    "And then?",
    "Thanks. What is next on your list?",
)
_EXCHANGE = re.compile(r"\s*User: (.*?)\n\nAssistant: (.*)", re.DOTALL)


def exchange(user: str, assistant: str) -> str:
    """Writes one turn of each as text. Neither may hold a blank line."""
    return f"User: {user}\n\nAssistant: {assistant}"


def messages(exchanges: Sequence[str]) -> list[dict[str, str]]:
    """Reads texts that `exchange` wrote as messages."""
    found: list[dict[str, str]] = []
    for text in exchanges:
        match = _EXCHANGE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text[:40]!r} is not an exchange")
        found += [{"role": "user", "content": match[1]}, {"role": "assistant", "content": match[2]}]
    return found


class Turns(ElasticSource):
    """The pieces of a source, each told by an assistant after a user asks for more."""

    def __init__(self, told: TextSource) -> None:
        self.name = told.name
        self._told = told

    def order(self, rng: random.Random) -> Iterator[int]:
        return self._told.order(rng)

    def prose(self, index: int) -> str:
        return " ".join(self._told.text(index).split())

    def stretched(self, index: int, prose: str) -> str:
        return "\n\n" + exchange(seeded("turns", index).choice(_PROMPTS), prose)


@lru_cache(maxsize=8)
def turns(told: TextSource) -> Turns:
    """Returns the same `Turns` for the same source, so that its pieces are tokenized once."""
    return Turns(told)
