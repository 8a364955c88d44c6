"""Asks for long outputs that can be checked entry by entry: copy a slice of a list, or change every entry of it.

The slices asked for are planted in a ledger that looks the same all over. A few slices overlap in one stretch of the
list, so that long slices and many questions fit short contexts too; no two begin at the same entry.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question, depths_percent
from kveval.tasks.builders.draws import draw_names, pair_of_words, seeded
from kveval.tasks.builders.sources import Cut, NumberedText
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS
from kveval.tasks.dataset import HaystackDataset

SLICES_A_STRETCH = 5
_FEWEST_ITEMS = 16

Entry = tuple[str, str]


@dataclass(frozen=True)
class Slices(Builder):
    """Plants stretches of a ledger and asks for slices of them. Subclasses say what to write of each entry.

    Attributes:
        items: entries of a slice, at least 16. The output budget must be large enough for them.
    """

    items: int = 40

    def __post_init__(self) -> None:
        if self.items < _FEWEST_ITEMS:
            raise ConfigError(f"items={self.items}; use a whole number from {_FEWEST_ITEMS}")

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        stretches = -(-len(numbers) // SLICES_A_STRETCH)
        step = self.items // 8
        starts = _starts(len(numbers), stretches, step)
        lengths = [own[-1] + self.items for own in starts]
        names = iter(draw_names(sum(lengths), rng))
        needles: list[Needle] = []
        questions: list[Question] = []
        for own, length, depth in zip(starts, lengths, depths_percent(stretches, depth_shift), strict=True):
            entries = [(next(names), draw_number(rng)) for _ in range(length)]
            for start, past in zip(own, [*own[1:], length], strict=True):
                questions.append(self._question(entries[start : start + self.items], len(needles), rng))
                text = "\n".join(entry(*each) for each in entries[start:past])
                needles.append(Needle(text, depth, lead="\n"))
        forbidden = frozenset(line.split(":")[0] for needle in needles for line in needle.text.split("\n"))
        return Haystack(needles, rng.sample(questions, len(questions)), forbidden, LEDGER, Cut.PIECE)

    def _question(self, entries: Sequence[Entry], needle: int, rng: random.Random) -> Question:
        verb, how, written = self.asked(rng)
        first, last = entries[0][0], entries[-1][0]
        return Question(
            {
                "question": f"{verb} the {len(entries)} entries of the list from {first} to {last}, in their order, "
                f"one entry a line{how}. Write nothing else."
            },
            tuple(entry(*written(each)) for each in entries),
            (needle,),
        )

    @abstractmethod
    def asked(self, rng: random.Random) -> tuple[str, str, Callable[[Entry], Entry]]:
        """Returns the verb of the question, how entries are to be changed, and what is to be written for an entry."""


class Recital(Slices):
    """Entries copied as they are."""

    def asked(self, rng: random.Random) -> tuple[str, str, Callable[[Entry], Entry]]:  # noqa: ARG002 (no choice)
        return "Copy", "", lambda each: each


class Transformation(Slices):
    """Entries changed by one of three simple rules."""

    def asked(self, rng: random.Random) -> tuple[str, str, Callable[[Entry], Entry]]:
        rule, written = rng.choice(_RULES)
        before = ("sample-entry", "1234")
        return "Write", f", with {rule}: {entry(*before)} becomes {entry(*written(before))}", written


_RULES: tuple[tuple[str, Callable[[Entry], Entry]], ...] = (
    ("the two words of every name swapped", lambda each: ("-".join(reversed(each[0].split("-"))), each[1])),
    ("the digits of every number in reverse", lambda each: (each[0], each[1][::-1])),
    ("every number increased by one", lambda each: (each[0], str(int(each[1]) + 1))),
)


def _starts(slices: int, stretches: int, step: int) -> list[list[int]]:
    """Says at which entries of each stretch its slices begin."""
    bounds = [k * slices // stretches for k in range(stretches + 1)]
    return [[step * i for i in range(past - first)] for first, past in pairwise(bounds)]


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


recite_pairs = HaystackDataset(Recital)
transform_list = HaystackDataset(Transformation)
