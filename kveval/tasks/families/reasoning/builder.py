"""The base of reasoning tasks: facts in the haystack, and a chain of steps of which each needs the one before."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Question, evenly_spaced
from kveval.tasks.builders.draws import draw_names

_MOST_STEPS = 2000
_TEXT_SHARE = 0.6  # of a context that facts may fill; the rest is filler


@dataclass(frozen=True, slots=True)
class Trace:
    """One chain of steps.

    Attributes:
        facts: what stands in the haystack, in the order in which it stands there.
        task: what to do, in a sentence or two.
        values: what is right after each step.
    """

    facts: Sequence[str]
    task: str
    values: Sequence[str]


@dataclass(frozen=True)
class Chain(Builder):
    """Plants the facts of one chain for each question, mixed with those of the others, each in its own order.

    Attributes:
        steps: of a chain. The output budget must be large enough for them.
    """

    steps: int = 16

    def __post_init__(self) -> None:
        if self.steps > _MOST_STEPS:
            raise ConfigError(f"steps={self.steps}; use a whole number from 1 to {_MOST_STEPS}")

    @property
    @abstractmethod
    def facts_tokens(self) -> int:
        """About how many tokens the facts of one chain have."""

    def most_questions(self, context_length: int) -> int:
        return max(1, int(_TEXT_SHARE * context_length / self.facts_tokens))

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        each = self.names_needed
        names = draw_names(len(numbers) * each, rng)
        traces = [self.trace(names[k * each : (k + 1) * each], rng) for k in range(len(numbers))]
        mixed = [fact for same in zip_longest(*(trace.facts for trace in traces)) for fact in same if fact is not None]
        questions = [
            Question(
                {"question": trace.task},
                tuple(f"Step {k}: {value}" for k, value in enumerate(trace.values, 1)),
                tuple(k for k, fact in enumerate(mixed) if fact in set(trace.facts)),
            )
            for trace in traces
        ]
        return Haystack(evenly_spaced(mixed, depth_shift), rng.sample(questions, len(questions)), frozenset(names))

    @property
    def names_needed(self) -> int:
        """How many names, unlike those of every other chain, a chain needs."""
        return 1

    @abstractmethod
    def trace(self, names: Sequence[str], rng: random.Random) -> Trace:
        """Draws one chain."""
