"""A long list of names and numbers, one entry a line."""

from __future__ import annotations

import random
from functools import lru_cache

from kveval.tasks.builders.draws import pair_of_words
from kveval.tasks.builders.sources import NumberedText
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS
from kveval.tasks.seeding import seeded

_NAMES = len(ADJECTIVES) * len(NOUNS)
_STRIDE = 7919  # a prime that does not divide _NAMES, so that neighbours are unlike


@lru_cache(maxsize=_NAMES)
def _numbered_line(index: int) -> str:
    return "\n" + entry(pair_of_words(index * _STRIDE % _NAMES), draw_number(seeded("ledger", index)))


def entry(name: str, number: str) -> str:
    return f"{name}: {number}"


def draw_number(rng: random.Random) -> str:
    """Four digits, the last one from 1 to 8: it can be read backwards, and one more changes no other digit."""
    return f"{rng.randrange(100, 1000)}{rng.randrange(1, 9)}"


LEDGER = NumberedText("ledger", _numbered_line, _NAMES)
"""Entries that nobody asks for. It ends when every name has been used."""
