"""Needles in a haystack: facts planted in filler text, and questions about them.

Every needle is one sentence, ``The <subject> is <value>.``, and values are 7-digit numbers as in RULER
(arXiv 2404.06654). Each class is one task: what the subjects are, how many needles there are, and what is asked.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question, evenly_spaced
from kveval.tasks.builders.draws import draw_numbers, is_absent, spread
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
_NUMBERS = "special magic numbers for {}"
_DIGITS = 7


@dataclass(frozen=True)
class OfManyKinds(Builder):
    """Plants unlike subjects, one number each, and asks for each. With one question it is RULER's single needle."""

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = len(numbers)
        kinds = [kind for _ in range(-(-count // len(KINDS))) for kind in rng.sample(KINDS, len(KINDS))][:count]
        subjects = [kind.format(name.title()) for kind, name in zip(kinds, _names(count, rng), strict=True)]
        return _one_each(subjects, range(count), depth_shift, rng)


@dataclass(frozen=True)
class OfOneKind(Builder):
    """Plants many subjects of the same kind, one number each, and asks for some of them.

    Attributes:
        keys: subjects in a haystack, at least as many as questions need.
    """

    keys: int = 1

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        subjects = [NUMBER.format(name) for name in _names(count, rng)]
        return _one_each(subjects, spread(len(numbers), count), depth_shift, rng)


@dataclass(frozen=True)
class Absent(OfOneKind):
    """Like `OfOneKind`, but some questions ask for a subject that is not there, made of words that are.

    Attributes:
        absent_share: share of questions whose subject is not in the haystack.
    """

    absent_share: float = 0.0

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        *names, spare = _names(count + 1, rng)
        subjects = [NUMBER.format(name) for name in names]
        present = _one_each(subjects, spread(len(numbers), count), depth_shift, rng)
        nouns = [name.split("-")[1] for name in (*names[1:], spare)]
        missing = [f"{name.split('-')[0]}-{noun}" for name, noun in zip(names, nouns, strict=True)]
        rng.shuffle(missing)
        values = tuple(needle.text.split()[-1].rstrip(".") for needle in present.needles)
        questions = [
            Question(_ask(NUMBER.format(missing[i])), ("not stated",), (), values, absent=True)
            if is_absent(number, self.absent_share)
            else question
            for i, (number, question) in enumerate(zip(numbers, present.questions, strict=True))
        ]
        return Haystack(present.needles, questions, present.forbidden | set(missing))


@dataclass(frozen=True)
class ManyValues(Builder):
    """Plants several numbers of each subject in different places; a question asks for all of one subject's.

    Attributes:
        keys: subjects in a haystack, at least as many as questions need.
        values: numbers planted per subject.
    """

    keys: int = 1
    values: int = 1

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, len(numbers))
        names = _names(count, rng)
        values = draw_numbers(count * self.values, _DIGITS, rng)
        owners = list(range(count)) * self.values
        texts = [
            f"One of the {_NUMBERS.format(names[owner])} is {value}."
            for owner, value in zip(owners, values, strict=True)
        ]
        questions = []
        for key in rng.sample(range(count), len(numbers)):
            own = [i for i, owner in enumerate(owners) if owner == key]
            questions.append(Question.about(_ask_for_several("all the", names[key]), values, *own))
        return Haystack(evenly_spaced(texts, depth_shift), questions, frozenset((*names, *values)))


@dataclass(frozen=True)
class ManySubjects(Builder):
    """Plants one number per subject; a question asks for several subjects at once.

    Attributes:
        keys: subjects in a haystack, at least `subjects`.
        subjects: subjects that a question asks for.
    """

    keys: int = 1
    subjects: int = 1

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        count = max(self.keys, self.subjects)
        names = _names(count, rng)
        values = draw_numbers(count, _DIGITS, rng)
        needles = _needles([NUMBER.format(name) for name in names], values, depth_shift)
        questions = [
            Question.about(_ask_for_several("the", _listed([names[i] for i in own])), values, *own)
            for own in _groups(count, self.subjects, len(numbers), rng)
        ]
        return Haystack(needles, questions, frozenset((*names, *values)))


def _one_each(subjects: Sequence[str], asked: Sequence[int], depth_shift: float, rng: random.Random) -> Haystack:
    """Plants one needle per subject in order of depth, and asks one question for each index of `asked`.

    The order of questions is random, because the first to be sent is the only one whose context is not cached.
    """
    values = draw_numbers(len(subjects), _DIGITS, rng)
    questions = [Question.about(_ask(subjects[i]), values, i) for i in rng.sample(asked, len(asked))]
    return Haystack(_needles(subjects, values, depth_shift), questions, frozenset((*subjects, *values)))


def _needles(subjects: Sequence[str], values: Sequence[str], depth_shift: float) -> list[Needle]:
    texts = [f"The {subject} is {value}." for subject, value in zip(subjects, values, strict=True)]
    return evenly_spaced(texts, depth_shift)


def _ask(subject: str) -> dict[str, str]:
    return {"question": f"What is the {subject} in the text?", "answer_lead": f"The {subject} is"}


def _ask_for_several(which: str, names: str) -> dict[str, str]:
    subject = _NUMBERS.format(names)
    return {"question": f"What are {which} {subject} in the text?", "answer_lead": f"The {subject} are"}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def _names(count: int, rng: random.Random) -> list[str]:
    """Draws hyphenated names of which no two share a word."""
    most = min(len(ADJECTIVES), len(NOUNS)) - 1
    if count > most:
        raise ConfigError(f"{count} keys in one haystack; use at most {most}")
    return [f"{a}-{n}" for a, n in zip(rng.sample(ADJECTIVES, count), rng.sample(NOUNS, count), strict=True)]


def _groups(count: int, size: int, groups: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Draws groups of `size` different indexes below `count`, every index about equally often."""
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
