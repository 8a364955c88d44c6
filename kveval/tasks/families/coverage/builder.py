"""Plants decisions of a council in prose and asks for several: a summary that can be checked.

A decision is one sentence with a department, somebody in charge, a month, a project and an amount of money. Project and
amount are unique, so that an answer can be told to hold a decision or not without a judge.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Question, check_choice, evenly_spaced
from kveval.tasks.builders.sources import Cut
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS
from kveval.tasks.dataset import HaystackDataset

DEPARTMENTS = (
    "Harbour", "Parks", "Transport", "Education", "Housing", "Culture",
    "Water", "Energy", "Health", "Sports", "Tourism", "Planning",
)  # fmt: skip
OWNERS = (
    "Ada Brandt", "Bruno Castell", "Clara Dumont", "Dario Engstrom", "Elsa Ferrari", "Felix Grabowski",
    "Greta Halloran", "Hugo Ivanov", "Irene Jansen", "Jonas Kowalski", "Karin Lindqvist", "Luca Moretti",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
PROJECTS = (
    "repair the roof of the {} school",
    "renew the heating of the {} library",
    "buy two boats for the {} ferry",
    "repaint the {} footbridge",
    "hire a gardener for the {} park",
    "move the weekly market to {} square",
    "extend the opening hours of the {} museum",
    "widen the {} road",
    "lend tents to the {} festival",
    "replace the pumps of the {} swimming pool",
    "install lamps along the {} promenade",
    "train the volunteers of the {} fire station",
)
WORDINGS = (
    "It was decided that the {department} department will {project} in {month} for {amount} euros, led by {owner}.",
    "{owner} leads what was decided next: the {department} department will {project} in {month} at {amount} euros.",
    "The council approved {amount} euros for the {department} department to {project} in {month}, led by {owner}.",
    "In {month}, the meeting agreed, the {department} department will {project} for {amount} euros, led by {owner}.",
)
GROUP = 4
FORMS = ("list", "summary")
_FIGURES = range(10_003, 100_000, 7)  # a bound between two neighbours is neither of them


@dataclass(frozen=True)
class _Decision:
    """What the council decided.

    Attributes:
        name: of the place concerned; unique, as is `amount`.
        amount: euros, five digits.
    """

    department: str
    owner: str
    month: str
    project: str
    name: str
    amount: int
    wording: str

    @property
    def written_amount(self) -> str:
        return f"{self.amount:,}"

    def __str__(self) -> str:
        return self.wording.format(
            department=self.department,
            owner=self.owner,
            month=self.month,
            project=self.project.format(self.name),
            amount=self.written_amount,
        )

    def facts(self) -> dict[str, str]:
        return {"name": self.name, "amount": self.written_amount}


@dataclass(frozen=True)
class CouncilDecisions(Builder):
    """Plants decisions, and asks for all decisions of some kind.

    Attributes:
        decisions: planted, a multiple of 4: each department, person and month has 3 to 5 of them.
        form: ``list`` asks for the decisions of a department, of a person, of a month, or above or below an amount;
            ``summary`` for those of two departments, as prose.
    """

    decisions: int = 24
    form: str = "list"

    def __post_init__(self) -> None:
        most = GROUP * len(DEPARTMENTS)
        if self.decisions not in range(8, most + 1, GROUP):
            raise ConfigError(f"decisions={self.decisions}; use a multiple of {GROUP} from 8 to {most}")
        check_choice("form", self.form, FORMS)

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        decisions = _decisions(self.decisions, rng)
        needles = evenly_spaced([str(decision) for decision in decisions], depth_shift)
        asked = list((_listed if self.form == "list" else _summarized)(decisions))
        if len(numbers) > len(asked):
            raise ConfigError(
                f"questions_per_haystack={len(numbers)}; use at most {len(asked)} with decisions={self.decisions}"
            )
        questions = [_question(text, own, decisions) for text, own in rng.sample(asked, len(numbers))]
        forbidden = {
            form for decision in decisions for form in (decision.name, decision.written_amount, decision.owner)
        }
        return Haystack(needles, questions, frozenset(forbidden), least_cut=Cut.SENTENCE)


def _decisions(count: int, rng: random.Random) -> list[_Decision]:
    projects = [project for _ in range(-(-count // len(PROJECTS))) for project in rng.sample(PROJECTS, len(PROJECTS))]
    wordings = [wording for _ in range(-(-count // len(WORDINGS))) for wording in rng.sample(WORDINGS, len(WORDINGS))]
    names = zip(rng.sample(ADJECTIVES, count), rng.sample(NOUNS, count), strict=True)
    rows = zip(
        _dealt(DEPARTMENTS, count, rng),
        _dealt(OWNERS, count, rng),
        _dealt(MONTHS, count, rng),
        projects[:count],
        (f"{adjective} {noun}".title() for adjective, noun in names),
        rng.sample(_FIGURES, count),
        wordings[:count],
        strict=True,
    )
    return [_Decision(*row) for row in rows]


def _dealt(kinds: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Deals `count` values of count / 4 kinds in random order, 3 to 5 of each, so that a group's size tells nothing."""
    chosen = rng.sample(kinds, count // GROUP)
    uneven = rng.sample(range(len(chosen)), 2 * rng.randint(0, len(chosen) // 2))
    sizes = [GROUP] * len(chosen)
    for more, less in zip(uneven[::2], uneven[1::2], strict=True):
        sizes[more] += 1
        sizes[less] -= 1
    cards = [kind for kind, size in zip(chosen, sizes, strict=True) for _ in range(size)]
    rng.shuffle(cards)
    return cards


def _listed(decisions: Sequence[_Decision]) -> Iterator[tuple[str, list[int]]]:
    """Yields all questions of the ``list`` form and the decisions each asks for."""
    ask = "List every decision {} with its project and its amount in euros, and no other decision."
    for kind, words in (
        ("department", "of the {} department"),
        ("owner", "led by {}"),
        ("month", "for {}"),
    ):
        values = [getattr(decision, kind) for decision in decisions]
        for value in dict.fromkeys(values):
            yield ask.format(words.format(value)), [i for i, other in enumerate(values) if other == value]
    order = sorted(range(len(decisions)), key=lambda i: decisions[i].amount)
    for size in range(GROUP - 1, GROUP + 2):
        for words, own, first_beyond in (
            ("of less than {:,} euros", order[:size], order[size]),
            ("of more than {:,} euros", order[: -size - 1 : -1], order[-size - 1]),
        ):
            bound = (decisions[own[-1]].amount + decisions[first_beyond].amount) // 2
            yield ask.format(words.format(bound)), sorted(own)


def _summarized(decisions: Sequence[_Decision]) -> Iterator[tuple[str, list[int]]]:
    """Yields all questions of the ``summary`` form and the decisions each asks for."""
    for pair in combinations(dict.fromkeys(decision.department for decision in decisions), 2):
        text = (
            f"Summarize in one paragraph what was decided for the {pair[0]} and for the {pair[1]} department. Mention "
            "every decision with its project and its amount in euros, and no decision of another department."
        )
        yield text, [i for i, decision in enumerate(decisions) if decision.department in pair]


def _question(text: str, own: Sequence[int], decisions: Sequence[_Decision]) -> Question:
    others = [decision for i, decision in enumerate(decisions) if i not in own]
    return Question(
        {
            "question": text,
            "decisions": [decisions[i].facts() for i in own],
            "other_decisions": [decision.facts() for decision in others],
        },
        tuple(decisions[i].written_amount for i in own),
        tuple(own),
        tuple(decision.written_amount for decision in others),
    )


decisions = HaystackDataset(CouncilDecisions)
