"""A long JSON object of random keys and values, and the value of one key (arXiv 2307.03172, key-value retrieval)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from kveval.tasks.builders.base import Builder, Haystack, Question, evenly_spaced
from kveval.tasks.builders.draws import seeded, spread
from kveval.tasks.builders.sources import Cut, NumberedText
from kveval.tasks.dataset import HaystackDataset

_LINES_KEPT = 32_768


@dataclass(frozen=True)
class Lookup(Builder):
    """Plants pairs to ask for among pairs that look the same. The whole context is one JSON object, cut off at its end.

    Attributes:
        keys: pairs planted, at least as many as questions need; the distractors of each question.
    """

    keys: int = 16

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        keys, values = ([_uuid(rng) for _ in range(count)] for _ in range(2))
        lines = [_line(key, value) for key, value in zip(keys, values, strict=True)]
        questions = [
            Question.about(
                {
                    "question": f'What is the value of the key "{keys[i]}" in the JSON data?',
                    "answer_lead": f'The value of the key "{keys[i]}" is',
                },
                values,
                i,
            )
            for i in rng.sample(spread(len(numbers), count), len(numbers))
        ]
        needles = evenly_spaced(lines, depth_shift, lead="\n")
        return Haystack(needles, questions, frozenset((*keys, *values)), _PAIRS, Cut.PIECE)


@lru_cache(maxsize=_LINES_KEPT)
def _numbered_line(index: int) -> str:
    rng = seeded("pairs", index)
    return "\n" + _line(_uuid(rng), _uuid(rng))


def _line(key: str, value: str) -> str:
    return f'"{key}": "{value}",'


def _uuid(rng: random.Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


_PAIRS = NumberedText("pairs", _numbered_line)
kv_lookup = HaystackDataset(Lookup)
