"""Records extracted from a long document into JSON of a given schema.

Every haystack has records of one kind, so its questions share the schema, which stands before the document.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kveval.tasks.assembly.filler import Cut
from kveval.tasks.assembly.haystack import Haystack, Needle, Question, depths_percent
from kveval.tasks.assembly.parameters import Parameters
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.families.structured.record_kinds import RECORD_KINDS, Record, RecordKind
from kveval.tasks.seeding import seeded

_SHUFFLED_TOGETHER = 4096


@dataclass(frozen=True)
class InProse(Parameters):
    """Records told in two sentences each, apart from one another in prose; a question asks for one record.

    Attributes:
        records: in a haystack, at least as many as questions need.
    """

    records: int = 12

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        kind = rng.choice(RECORD_KINDS)
        records = _records(kind, max(self.records, len(numbers)), rng)
        told = [(owner, part) for owner in range(len(records)) for part in range(2)]
        rng.shuffle(told)
        needles = [
            Needle(kind.sentences(records[owner])[part], depth)
            for (owner, part), depth in zip(told, depths_percent(len(told), depth_shift), strict=True)
        ]
        schema = json.dumps(kind.schema())
        questions = [
            Question(
                {
                    "question": f"Write {kind.noun} {records[i][kind.key]} as one JSON object.",
                    "schema": schema,
                    "key": kind.key,
                },
                (json.dumps(records[i]),),
                tuple(place for place, (owner, _) in enumerate(told) if owner == i),
            )
            for i in rng.sample(range(len(records)), len(numbers))
        ]
        return Haystack(needles, questions, frozenset(record[kind.key] for record in records))


class Register:
    """Records that nobody asks for, one a line; record k is made from its own number and they never end."""

    def __init__(self, kind: RecordKind) -> None:
        self.kind = kind
        self.name = f"register of {kind.plural}"

    def text(self, index: int) -> str:
        return _line(self.kind.noun, index)

    def order(self, rng: random.Random) -> Iterator[int]:
        first = 0
        while True:
            yield from rng.sample(range(first, first + _SHUFFLED_TOGETHER), _SHUFFLED_TOGETHER)
            first += _SHUFFLED_TOGETHER


@dataclass(frozen=True)
class InRegister(Parameters):
    """A register that fills the context; a question asks for the one, two or three records of a customer, team or host.

    Attributes:
        most: records a question asks for at most; 1 to `most` are equally frequent.
    """

    most: int = 3

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        kind = rng.choice(RECORD_KINDS)
        sizes = [1 + (number + int(depth_shift * self.most)) % self.most for number in numbers]
        groups = [record[kind.group] for record in _records(kind, len(sizes), rng)]
        owners = [i for i, size in enumerate(sizes) for _ in range(size)]
        rng.shuffle(owners)
        records = _records(kind, len(owners), rng, [groups[owner] for owner in owners])
        needles = [
            Needle(kind.line(record), depth, lead="\n")
            for record, depth in zip(records, depths_percent(len(owners), depth_shift), strict=True)
        ]
        schema = json.dumps({"type": "array", "items": kind.schema(), "minItems": 1})
        questions = []
        for i, group in enumerate(groups):
            own = tuple(place for place, owner in enumerate(owners) if owner == i)
            questions.append(
                Question(
                    {
                        "question": f"Write all {kind.plural} whose {kind.group} is {group} as one JSON array.",
                        "schema": schema,
                        "key": kind.key,
                    },
                    (json.dumps([records[place] for place in own]),),
                    own,
                )
            )
        forbidden = frozenset((*groups, *(record[kind.key] for record in records)))
        return Haystack(needles, rng.sample(questions, len(questions)), forbidden, _REGISTERS[kind.noun], Cut.PIECE)


def _records(kind: RecordKind, count: int, rng: random.Random, groups: Sequence[str] = ()) -> list[Record]:
    """Records no two of which share the key, nor the group unless `groups` are given."""
    found: list[Record] = []
    used: set[Any] = set()
    while len(found) < count:
        record = kind.record(rng, groups[len(found)] if groups else None)
        own = {record[kind.key]} if groups else {record[kind.key], record[kind.group]}
        if used.isdisjoint(own):
            used |= own
            found.append(record)
    return found


@lru_cache(maxsize=8 * _SHUFFLED_TOGETHER)
def _line(noun: str, index: int) -> str:
    kind = _REGISTERS[noun].kind
    return "\n" + kind.line(kind.record(seeded("register", noun, index)))


_REGISTERS = {kind.noun: Register(kind) for kind in RECORD_KINDS}
extract_record = HaystackDataset(InProse)
extract_many = HaystackDataset(InRegister)
