"""A long JSON object of random keys and values, and the value of one key (arXiv 2307.03172, key-value retrieval)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from kveval.tasks.assembly.draws import spread
from kveval.tasks.assembly.filler import Cut
from kveval.tasks.assembly.haystack import Haystack, Needle, Question, depths_percent
from kveval.tasks.assembly.parameters import Parameters
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.seeding import seeded

_SHUFFLED_TOGETHER = 4096


class Pairs:
    """Lines of a JSON object that nobody asks for; pair k is made from its own number and they never end."""

    name = "pairs"

    def text(self, index: int) -> str:
        return _numbered_line(index)

    def order(self, rng: random.Random) -> Iterator[int]:
        first = 0
        while True:
            yield from rng.sample(range(first, first + _SHUFFLED_TOGETHER), _SHUFFLED_TOGETHER)
            first += _SHUFFLED_TOGETHER


@dataclass(frozen=True)
class Lookup(Parameters):
    """Pairs to ask for among pairs that look the same; the whole context is one JSON object, cut off at its end.

    Attributes:
        keys: pairs planted, at least as many as questions need; the distractors of each question.
    """

    keys: int = 16

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        keys, values = ([_uuid(rng) for _ in range(count)] for _ in range(2))
        needles = [
            Needle(_line(key, value), depth, lead="\n")
            for key, value, depth in zip(keys, values, depths_percent(count, depth_shift), strict=True)
        ]
        questions = [
            Question(
                {
                    "question": f'What is the value of the key "{keys[i]}" in the JSON data?',
                    "answer_lead": f'The value of the key "{keys[i]}" is',
                },
                (values[i],),
                (i,),
                tuple(value for value in values if value != values[i]),
            )
            for i in rng.sample(spread(len(numbers), count), len(numbers))
        ]
        return Haystack(needles, questions, frozenset((*keys, *values)), _PAIRS, Cut.PIECE)


@lru_cache(maxsize=8 * _SHUFFLED_TOGETHER)
def _numbered_line(index: int) -> str:
    rng = seeded("pairs", index)
    return "\n" + _line(_uuid(rng), _uuid(rng))


def _line(key: str, value: str) -> str:
    return f'"{key}": "{value}",'


def _uuid(rng: random.Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


_PAIRS = Pairs()
kv_lookup = HaystackDataset(Lookup)
