"""Records extracted from a long document into JSON of a given schema.

Every haystack has records of one kind, so its questions share the schema, which stands before the document.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kveval.tasks.builders.base import Builder, Haystack, Question, evenly_spaced
from kveval.tasks.builders.draws import seeded
from kveval.tasks.builders.sources import Cut, NumberedText
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.families.structured.record_kinds import RECORD_KINDS, Record, RecordKind

_LINES_KEPT = 32_768


@dataclass(frozen=True)
class InProse(Builder):
    """Plants records told in two sentences each, far apart in prose, and asks for one record.

    Attributes:
        records: in a haystack, at least as many as questions need.
    """

    records: int = 12

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        kind = rng.choice(RECORD_KINDS)
        records = _records(kind, max(self.records, len(numbers)), rng)
        told = [(owner, part) for owner in range(len(records)) for part in range(2)]
        rng.shuffle(told)
        needles = evenly_spaced([kind.sentences(records[owner])[part] for owner, part in told], depth_shift)
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


@dataclass(frozen=True)
class InRegister(Builder):
    """Fills the context with a register, and asks for the few records of a customer, a team or a host.

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
        needles = evenly_spaced([kind.line(record) for record in records], depth_shift, lead="\n")
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
    """Draws records with different keys, and different groups unless `groups` are given."""
    found: list[Record] = []
    used: set[Any] = set()
    while len(found) < count:
        record = kind.record(rng, groups[len(found)] if groups else None)
        own = {record[kind.key]} if groups else {record[kind.key], record[kind.group]}
        if used.isdisjoint(own):
            used |= own
            found.append(record)
    return found


def _register(kind: RecordKind) -> NumberedText:
    """Makes a filler of records that nobody asks for, one a line."""

    @lru_cache(maxsize=_LINES_KEPT)
    def line(index: int) -> str:
        return "\n" + kind.line(kind.record(seeded("register", kind.noun, index)))

    return NumberedText(f"register of {kind.plural}", line)


_REGISTERS = {kind.noun: _register(kind) for kind in RECORD_KINDS}
extract_record = HaystackDataset(InProse)
extract_many = HaystackDataset(InRegister)
