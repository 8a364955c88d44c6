"""Generated prose: a haystack that needs no download and never ends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

from kveval.tasks.corpora.words import ADJECTIVES, NOUNS
from kveval.tasks.seeding import seeded

_VERBS = (
    "passed", "reached", "watched", "followed", "circled", "faced", "crossed", "warmed", "guarded", "sheltered",
    "joined", "left", "found", "met",
)  # fmt: skip
_PLACES = (
    "at dawn", "before noon", "in the evening", "after the rain", "near the road", "by the water", "on market days",
    "in late spring", "during the harvest", "under a grey sky",
)  # fmt: skip
_SHAPES = (
    "The {a} {n} {v} the {b} {m} {p}.",
    "Nobody said why the {a} {n} {v} the {b} {m}.",
    "{P}, the {a} {n} {v} the {m}.",
    "It was {p} that the {n} {v} the {a} and {b} {m}.",
    "People remember that the {n} was {a} and the {m} was {b}.",
    "The {b} {m} stood {p}, and the {n} seemed {a} beside it.",
)
_SHUFFLED_TOGETHER = 4096


class GeneratedText:
    """Paragraphs of simple sentences without digits or hyphens.

    Paragraph k is made from its own number, so it is the same in every haystack; haystacks differ in its order.
    """

    name = "generated"

    def text(self, index: int) -> str:
        return _paragraph(index)

    def order(self, rng: random.Random) -> Iterator[int]:
        first = 0
        while True:
            block = list(range(first, first + _SHUFFLED_TOGETHER))
            rng.shuffle(block)
            yield from block
            first += _SHUFFLED_TOGETHER


@lru_cache(maxsize=8 * _SHUFFLED_TOGETHER)
def _paragraph(index: int) -> str:
    rng = seeded("generated", index)
    return "\n\n" + " ".join(_sentence(rng) for _ in range(rng.randint(3, 7)))


def _sentence(rng: random.Random) -> str:
    a, b = rng.sample(ADJECTIVES, 2)
    n, m = rng.sample(NOUNS, 2)
    place = rng.choice(_PLACES)
    return rng.choice(_SHAPES).format(a=a, b=b, n=n, m=m, v=rng.choice(_VERBS), p=place, P=place.capitalize())
