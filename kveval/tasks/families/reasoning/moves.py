"""Chains of moves: the states of a machine, a walk through a graph, and the rounds of a sort."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kveval.errors import ConfigError
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.families.reasoning.builder import Chain, Trace

_STATES = ("amber", "blue", "coral", "green", "ivory", "lilac", "olive", "pink", "red", "teal", "violet", "white")
_SIGNALS = ("left", "right")


@dataclass(frozen=True)
class StateMachine(Chain):
    """The state of a machine after each signal.

    Attributes:
        states: of a machine, each with a rule for two signals.
    """

    states: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.states <= len(_STATES):
            raise ConfigError(f"states={self.states}; use a whole number from 2 to {len(_STATES)}")

    @property
    def facts_tokens(self) -> int:
        return 28 * len(_SIGNALS) * self.states

    def trace(self, names: Sequence[str], rng: random.Random) -> Trace:
        [machine] = names
        states = rng.sample(_STATES, self.states)
        # Every signal moves the machine, and no two states go to the same one: it never gets stuck.
        rules: dict[tuple[str, str], str] = {}
        for signal in _SIGNALS:
            circle = rng.sample(states, self.states)
            rules |= {(a, signal): b for a, b in pairwise([*circle, circle[0]])}
        facts = [
            f"Machine {machine}: in state {state}, the signal {signal} leads to state {after}."
            for (state, signal), after in rules.items()
        ]
        signals = rng.choices(_SIGNALS, k=self.steps)
        state = start = rng.choice(states)
        values = []
        for signal in signals:
            state = rules[state, signal]
            values.append(state)
        task = (
            f"Machine {machine} begins in state {start} and gets the {self.steps} signals {', '.join(signals)}. "
            "Write its state after each signal."
        )
        return Trace(rng.sample(facts, len(facts)), task, values)


@dataclass(frozen=True)
class Walk(Chain):
    """The places of a walk in which each place has one way on. The ways stand in the text in another order."""

    @property
    def facts_tokens(self) -> int:
        return 18 * self.steps

    @property
    def names_needed(self) -> int:
        return self.steps + 1

    def trace(self, names: Sequence[str], rng: random.Random) -> Trace:
        facts = [f"The way from {here} leads to {there}." for here, there in pairwise(names)]
        task = f"Begin at {names[0]} and follow the ways. Write the place after each of {self.steps} ways."
        return Trace(rng.sample(facts, len(facts)), task, list(names[1:]))


@dataclass(frozen=True)
class Sort(Chain):
    """A list after each round of a selection sort."""

    steps: int = 8

    @property
    def facts_tokens(self) -> int:
        return 16 + 4 * self.steps

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps > 80:
            raise ConfigError(f"steps={self.steps}; use a whole number from 1 to 80: numbers have two digits")

    def trace(self, names: Sequence[str], rng: random.Random) -> Trace:
        [name] = names
        numbers = rng.sample(range(10, 100), self.steps + 1)
        fact = f"List {name} is {' '.join(map(str, numbers))}."
        values = []
        for place in range(self.steps):
            least = numbers.index(min(numbers[place:]))
            numbers[place], numbers[least] = numbers[least], numbers[place]
            values.append(" ".join(map(str, numbers)))
        task = (
            f"Sort list {name}: in round k, swap the smallest number from place k on with the number at place k. "
            f"Write the whole list after each of {self.steps} rounds."
        )
        return Trace([fact], task, values)


trace_states = HaystackDataset(StateMachine)
trace_walk = HaystackDataset(Walk)
trace_sort = HaystackDataset(Sort)
