"""Variable tracking as in RULER (arXiv 2404.06654): chains of assignments, and which variables hold a value."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

from kveval.tasks.builders.base import Builder, Haystack, Question, evenly_spaced
from kveval.tasks.builders.draws import draw_numbers
from kveval.tasks.dataset import HaystackDataset

_LETTERS = 5
_DIGITS = 5


@dataclass(frozen=True)
class Chains(Builder):
    """Plants ``VAR ABCDE = 12345.``, ``VAR FGHIJ = VAR ABCDE.`` and so on: every chain in order, all over the context.

    Chains run side by side: the first links of all stand in the first stretch of the context, the second ones in the
    next, in a new order each time. One question asks for all variables of one chain.

    Attributes:
        chains: in a haystack, at least as many as questions need.
        hops: assignments after the first; a chain has one variable more.
    """

    chains: int = 1
    hops: int = 4

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count, links = max(self.chains, len(numbers)), self.hops + 1
        names = _variables(count * links, rng)
        chains = [tuple(names[i * links : (i + 1) * links]) for i in range(count)]
        values = draw_numbers(count, _DIGITS, rng)
        order = [(chain, link) for link in range(links) for chain in rng.sample(range(count), count)]
        texts = [
            f"VAR {chains[chain][link]} = {f'VAR {chains[chain][link - 1]}' if link else values[chain]}."
            for chain, link in order
        ]
        questions = [
            Question(
                {
                    "question": f"Find all variables that are assigned the value {values[chain]} in the text.",
                    "answer_lead": "According to the chains of variable assignments in the text, "
                    f"{links} variables are assigned the value {values[chain]}, they are:",
                },
                chains[chain],
                tuple(i for i, (owner, _) in enumerate(order) if owner == chain),
                tuple(name for name in names if name not in chains[chain]),
            )
            for chain in rng.sample(range(count), len(numbers))
        ]
        return Haystack(evenly_spaced(texts, depth_shift), questions, frozenset((*names, *values)))


def _variables(count: int, rng: random.Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choices(string.ascii_uppercase, k=_LETTERS))] = None
    return list(found)


variable_tracking = HaystackDataset(Chains)
