"""A long list of names and numbers, one entry a line."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

from kveval.tasks.assembly.draws import pair_of_words
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS
from kveval.tasks.seeding import seeded

_SHUFFLED_TOGETHER = 4096
_NAMES = len(ADJECTIVES) * len(NOUNS)
_STRIDE = 7919  # a prime that does not divide _NAMES, so that neighbours are unlike


class Ledger:
    """Entries that nobody asks for, made from their own numbers; ends when every name has been used."""

    name = "ledger"

    def text(self, index: int) -> str:
        return _numbered_line(index)

    def order(self, rng: random.Random) -> Iterator[int]:
        for first in range(0, _NAMES, _SHUFFLED_TOGETHER):
            past = min(first + _SHUFFLED_TOGETHER, _NAMES)
            yield from rng.sample(range(first, past), past - first)


@lru_cache(maxsize=_NAMES)
def _numbered_line(index: int) -> str:
    return "\n" + entry(pair_of_words(index * _STRIDE % _NAMES), draw_number(seeded("ledger", index)))


def entry(name: str, number: str) -> str:
    return f"{name}: {number}"


def draw_number(rng: random.Random) -> str:
    """Four digits, the last one from 1 to 8: it can be read backwards, and one more changes no other digit."""
    return f"{rng.randrange(100, 1000)}{rng.randrange(1, 9)}"
