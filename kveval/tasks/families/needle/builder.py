"""Needles in a haystack: facts planted in filler text, and questions about them.

Every needle is one sentence, ``The <subject> is <value>.``, and values are 7-digit numbers as in RULER
(arXiv 2404.06654). The tasks differ in what the subjects are, how many needles there are, and what is asked.
Each class is one task; `plan` is all there is to it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kveval.errors import ConfigError
from kveval.tasks.assembly.haystack import Haystack, Needle, Question, depths_percent
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS
from kveval.tasks.dataset import HaystackDataset

KINDS = (
    "access code of the {} archive",
    "registration number of the boat {}",
    "parking number of the {} bakery",
    "serial number of the {} telescope",
    "ticket number of the passenger from {}",
    "account number of the {} library",
    "catalogue number of the painting {}",
    "combination of the {} safe",
    "licence number of the driver from {}",
    "invoice number of the {} workshop",
    "membership number of the {} club",
    "reference number of the {} case",
    "batch number of the {} medicine",
    "locker number of the {} swimmer",
    "patent number of the {} engine",
    "policy number of the {} farm",
    "meter number of the {} factory",
    "tracking number of the {} parcel",
    "room code of the {} hotel",
    "badge number of the {} guard",
)
NUMBER = "special magic number for {}"


@dataclass(frozen=True)
class NeedleTask:
    """Common ground of the needle tasks. Subclasses say what is planted and asked in `haystack`.

    Attributes:
        keys: subjects in a haystack, at least as many as questions need.
        values: numbers planted per subject.
        subjects: subjects a question asks for.
        absent_share: share of questions whose subject is not in the haystack, in [0, 1].
    """

    keys: int = 1
    values: int = 1
    subjects: int = 1
    absent_share: float = 0.0

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> NeedleTask:
        """Reads the attributes from a task's YAML metadata.

        Raises:
            ConfigError: a value of the wrong kind or out of range.
        """
        found = {name: metadata[name] for name in cls.__dataclass_fields__ if name in metadata}
        for name, value in found.items():
            if name == "absent_share":
                right, allowed = isinstance(value, int | float) and 0 <= value <= 1, "0 to 1"
            else:
                right, allowed = isinstance(value, int) and value > 0, "whole numbers from 1"
            if isinstance(value, bool) or not right:
                raise ConfigError(f"{name}={value!r}; allowed: {allowed}")
        return cls(**found)

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        raise NotImplementedError

    def is_absent(self, number: int) -> bool:
        """Spreads absent questions over a cell so that n samples have exactly floor(n * absent_share) of them."""
        return int((number + 1) * self.absent_share) > int(number * self.absent_share)


class OfManyKinds(NeedleTask):
    """Unlike subjects, one number each, one question each. With one question a haystack: RULER's single needle."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = len(numbers)
        kinds = [kind for _ in range(-(-count // len(KINDS))) for kind in rng.sample(KINDS, len(KINDS))][:count]
        subjects = [kind.format(name.title()) for kind, name in zip(kinds, _names(count, rng), strict=True)]
        return _one_each(subjects, list(range(count)), depth_shift, rng)


class OfOneKind(NeedleTask):
    """Many subjects of the same kind, one number each; some are asked for, the rest only confuse."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        subjects = [NUMBER.format(name) for name in _names(count, rng)]
        return _one_each(subjects, _spread(len(numbers), count), depth_shift, rng)


class Absent(NeedleTask):
    """Like `OfOneKind`, but some questions ask for a subject that is not there, made of words that are."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        *names, spare = _names(count + 1, rng)
        present = _one_each([NUMBER.format(name) for name in names], _spread(len(numbers), count), depth_shift, rng)
        nouns = [name.split("-")[1] for name in (*names[1:], spare)]
        strangers = [f"{name.split('-')[0]}-{noun}" for name, noun in zip(names, nouns, strict=True)]
        rng.shuffle(strangers)
        values = tuple(needle.text.split()[-1].rstrip(".") for needle in present.needles)
        questions = [
            Question(_ask(NUMBER.format(strangers[i])), ("not stated",), (), values, absent=True)
            if self.is_absent(number)
            else question
            for i, (number, question) in enumerate(zip(numbers, present.questions, strict=True))
        ]
        return Haystack(present.needles, questions, present.forbidden | set(strangers))


class ManyValues(NeedleTask):
    """Each subject has several numbers in different places; a question asks for all of one subject's."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        names = _names(count, rng)
        values = _values(count * self.values, rng)
        owners = list(range(count)) * self.values
        depths = depths_percent(len(values), depth_shift)
        needles = [
            Needle(f"One of the {_plural(NUMBER).format(names[owner])} is {value}.", depth)
            for owner, value, depth in zip(owners, values, depths, strict=True)
        ]
        questions = []
        for key in rng.sample(range(count), len(numbers)):
            own = tuple(i for i, owner in enumerate(owners) if owner == key)
            subject = _plural(NUMBER).format(names[key])
            questions.append(
                Question(
                    {"question": f"What are all the {subject} in the text?", "answer_lead": f"The {subject} are"},
                    tuple(values[i] for i in own),
                    own,
                    tuple(value for i, value in enumerate(values) if i not in own),
                )
            )
        return Haystack(needles, questions, frozenset((*names, *values)))


class ManySubjects(NeedleTask):
    """One number per subject; a question asks for several subjects at once."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, self.subjects)
        names = _names(count, rng)
        values = _values(count, rng)
        needles = [
            Needle(f"The {NUMBER.format(name)} is {value}.", depth)
            for name, value, depth in zip(names, values, depths_percent(count, depth_shift), strict=True)
        ]
        questions = []
        for own in _groups(count, self.subjects, len(numbers), rng):
            subject = _plural(NUMBER).format(_listed([names[i] for i in own]))
            questions.append(
                Question(
                    {"question": f"What are the {subject} in the text?", "answer_lead": f"The {subject} are"},
                    tuple(values[i] for i in own),
                    own,
                    tuple(value for i, value in enumerate(values) if i not in own),
                )
            )
        return Haystack(needles, questions, frozenset((*names, *values)))


def _one_each(subjects: Sequence[str], asked: Sequence[int], depth_shift: float, rng: random.Random) -> Haystack:
    """One needle per subject in order of depth, and one question for each of the asked, in any order.

    The order of questions is random: the first to be sent is the one whose context is not in the prefix cache yet.
    """
    values = _values(len(subjects), rng)
    needles = [
        Needle(f"The {subject} is {value}.", depth)
        for subject, value, depth in zip(subjects, values, depths_percent(len(subjects), depth_shift), strict=True)
    ]
    questions = [
        Question(_ask(subjects[i]), (values[i],), (i,), tuple(value for value in values if value != values[i]))
        for i in rng.sample(asked, len(asked))
    ]
    return Haystack(needles, questions, frozenset((*subjects, *values)))


def _ask(subject: str) -> dict[str, str]:
    return {"question": f"What is the {subject} in the text?", "answer_lead": f"The {subject} is"}


def _plural(kind: str) -> str:
    return kind.replace("number", "numbers")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def _names(count: int, rng: random.Random) -> list[str]:
    """Hyphenated names, no word in two of them.

    Raises:
        ConfigError: more names than there are words.
    """
    most = min(len(ADJECTIVES), len(NOUNS)) - 1
    if count > most:
        raise ConfigError(f"{count} keys in one haystack; allowed: up to {most}")
    return [f"{a}-{n}" for a, n in zip(rng.sample(ADJECTIVES, count), rng.sample(NOUNS, count), strict=True)]


def _values(count: int, rng: random.Random) -> list[str]:
    return [str(value) for value in rng.sample(range(1_000_000, 10_000_000), count)]


def _spread(asked: int, count: int) -> list[int]:
    """`asked` of `count` indexes, evenly spaced."""
    return [(2 * i + 1) * count // (2 * asked) for i in range(asked)]


def _groups(count: int, size: int, groups: int, rng: random.Random) -> list[tuple[int, ...]]:
    """`groups` groups of `size` different indexes below `count`, every index about equally often."""
    result: list[tuple[int, ...]] = []
    while len(result) < groups:
        deck = rng.sample(range(count), count)
        result += [tuple(deck[i : i + size]) for i in range(0, count - size + 1, size)]
    return result[:groups]


niah_single = HaystackDataset(OfManyKinds)
niah_multikey = HaystackDataset(OfOneKind)
niah_absent = HaystackDataset(Absent)
niah_multivalue = HaystackDataset(ManyValues)
niah_multiquery = HaystackDataset(ManySubjects)
