"""Chains of sums: the balances of a ledger, the running total of a join, and a small program step by step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.families.reasoning.builder import Chain, Trace


@dataclass(frozen=True)
class Ledger(Chain):
    """The balance of an account after each of its entries.

    Attributes:
        largest: amount of an entry.
    """

    largest: int = 99

    @property
    def facts_tokens(self) -> int:
        return 20 * self.steps

    def trace(self, names: Sequence[str], rng: random.Random) -> Trace:
        [account] = names
        opening = balance = rng.randint(2 * self.largest, 9 * self.largest)
        facts, values = [], []
        for number in range(1, self.steps + 1):
            amount = rng.randint(1, self.largest)
            receives = amount > balance or rng.random() < 0.5
            balance += amount if receives else -amount
            verb = "receives" if receives else "pays"
            facts.append(f"Entry {number} of account {account}: it {verb} {amount} euros.")
            values.append(str(balance))
        task = (
            f"Account {account} begins with {opening} euros. Write its balance after each of its {self.steps} entries, "
            "in the order of their numbers."
        )
        return Trace(facts, task, values)


_ITEMS = 5


@dataclass(frozen=True)
class Join(Chain):
    """The running total of a buyer's orders, whose prices stand in another table."""

    @property
    def facts_tokens(self) -> int:
        return 18 * (self.steps + _ITEMS)

    @property
    def names_needed(self) -> int:
        return 1 + _ITEMS

    def trace(self, names: Sequence[str], rng: random.Random) -> Trace:
        buyer, *items = names
        prices = dict(zip(items, rng.sample(range(11, 100), _ITEMS), strict=True))
        bought = [rng.choice(items) for _ in range(self.steps)]
        facts = [f"Order {number} of buyer {buyer} is for item {item}." for number, item in enumerate(bought, 1)]
        for item, price in prices.items():
            facts.insert(rng.randint(0, len(facts)), f"Item {item} costs {price} euros.")
        total, values = 0, []
        for item in bought:
            total += prices[item]
            values.append(str(total))
        task = (
            f"Look up the price of the item of each order of buyer {buyer}. Write the sum of the prices so far after "
            f"each of the {self.steps} orders, in the order of their numbers."
        )
        return Trace(facts, task, values)


@dataclass(frozen=True)
class Program(Chain):
    """The value of a variable after each round of a loop. The number of the round enters, so that no round repeats."""

    @property
    def facts_tokens(self) -> int:
        return 60

    def trace(self, names: Sequence[str], rng: random.Random) -> Trace:
        [name] = names
        x = start = rng.randint(20, 99)
        to_even, to_odd = rng.randint(11, 49), 2 * rng.randint(5, 24) + 1
        fact = (
            f"A round of program {name}: if x is even, x becomes x / 2 + {to_even}; if x is odd, x "
            f"becomes x + {to_odd}; then the last digit of the number of the round is added to x."
        )
        values = []
        for number in range(1, self.steps + 1):
            x = (x + to_odd if x % 2 else x // 2 + to_even) + number % 10
            values.append(str(x))
        task = f"Program {name} begins with x = {start}. Write x after each of the rounds 1 to {self.steps}."
        return Trace([fact], task, values)


trace_ledger = HaystackDataset(Ledger)
trace_join = HaystackDataset(Join)
trace_program = HaystackDataset(Program)
