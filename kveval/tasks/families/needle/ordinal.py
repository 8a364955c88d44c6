"""The k-th of needles that say the same thing with different numbers, as in MRCR (arXiv 2409.12640)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from kveval.errors import ConfigError
from kveval.tasks.assembly.draws import draw_names, draw_numbers, spread
from kveval.tasks.assembly.haystack import Haystack, Needle, Question, depths_percent
from kveval.tasks.assembly.parameters import Parameters
from kveval.tasks.dataset import HaystackDataset

ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth",
)  # fmt: skip
_DIGITS = 7


@dataclass(frozen=True)
class Readings(Parameters):
    """Counters that are read again and again; a question asks for the k-th reading of one of them.

    Attributes:
        keys: counters in a haystack, at least as many as questions need.
        values: readings of each counter, up to 16.
    """

    keys: int = 3
    values: int = 8

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        if self.values > len(ORDINALS):
            raise ConfigError(f"values={self.values}; allowed: up to {len(ORDINALS)}")
        counters = draw_names(max(self.keys, -(-len(numbers) // self.values)), rng)
        owners = counters * self.values
        rng.shuffle(owners)
        readings = draw_numbers(len(owners), _DIGITS, rng)
        needles = [
            Needle(f"The {owner} counter now shows {reading}.", depth)
            for owner, reading, depth in zip(owners, readings, depths_percent(len(owners), depth_shift), strict=True)
        ]
        questions = []
        for i in rng.sample(spread(len(numbers), len(owners)), len(numbers)):
            ordinal = ORDINALS[owners[:i].count(owners[i])]
            questions.append(
                Question(
                    {
                        "question": f"The text reads the {owners[i]} counter {self.values} times. "
                        f"What does the counter show the {ordinal} time?",
                        "answer_lead": f"The {ordinal} time, the {owners[i]} counter shows",
                    },
                    (readings[i],),
                    (i,),
                    tuple(reading for reading in readings if reading != readings[i]),
                )
            )
        return Haystack(needles, questions, frozenset((*counters, *readings)))


niah_ordinal = HaystackDataset(Readings)
