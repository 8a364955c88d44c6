"""The k-th of needles that say the same thing with different numbers, as in MRCR (arXiv 2409.12640)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Question, evenly_spaced
from kveval.tasks.builders.draws import draw_names, draw_numbers, spread
from kveval.tasks.dataset import HaystackDataset

ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
)  # fmt: skip
_DIGITS = 7


@dataclass(frozen=True)
class Readings(Builder):
    """Plants counters that are read again and again, and asks for the k-th reading of one of them.

    Attributes:
        keys: counters in a haystack, at least as many as questions need.
        values: readings of each counter, up to 16.
    """

    keys: int = 3
    values: int = 8

    def __post_init__(self) -> None:
        if self.values > len(ORDINALS):
            raise ConfigError(f"values={self.values}; use at most {len(ORDINALS)}")

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        counters = draw_names(max(self.keys, -(-len(numbers) // self.values)), rng)
        owners = counters * self.values
        rng.shuffle(owners)
        readings = draw_numbers(len(owners), _DIGITS, rng)
        texts = [f"The {owner} counter now shows {reading}." for owner, reading in zip(owners, readings, strict=True)]
        questions = []
        for i in rng.sample(spread(len(numbers), len(owners)), len(numbers)):
            ordinal = ORDINALS[owners[:i].count(owners[i])]
            fields = {
                "question": f"The text reads the {owners[i]} counter {self.values} times. "
                f"What does the counter show the {ordinal} time?",
                "answer_lead": f"The {ordinal} time, the {owners[i]} counter shows",
            }
            questions.append(Question.about(fields, readings, i))
        return Haystack(evenly_spaced(texts, depth_shift), questions, frozenset((*counters, *readings)))


niah_ordinal = HaystackDataset(Readings)
