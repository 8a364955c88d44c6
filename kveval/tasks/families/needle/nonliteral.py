"""Needles that share no word with their question, as in NoLiMa (arXiv 2502.05167): world knowledge links the two."""

from __future__ import annotations

import random
from dataclasses import dataclass

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Question, evenly_spaced
from kveval.tasks.builders.draws import spread
from kveval.tasks.corpora.given_names import GIVEN_NAMES
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.families.needle.landmarks import LANDMARKS, Landmark

FACTS = (
    "{name} lives next to {landmark}.",
    "{name} rents a small apartment across the street from {landmark}.",
    "Every morning {name} walks past {landmark}.",
    "From the kitchen window {name} looks out on {landmark}.",
    "{Landmark} is only a few steps from the house where {name} grew up.",
    "{Landmark} stands right behind the workshop that {name} runs.",
)
QUESTIONS = (
    "Which character has been to {place}?",
    "Which of the people named in the text has already been to {place}?",
    "Who in the text must know {place} in person?",
)


@dataclass(frozen=True)
class Residents(Builder):
    """Plants people who live near landmarks, each in another country, and asks who has been to a city or country.

    Attributes:
        keys: people in a haystack, at least as many as questions need.
        hops: 1 asks for the landmark's city, 2 for its country.
    """

    keys: int = 16
    hops: int = 1

    def __post_init__(self) -> None:
        if self.hops > 2:
            raise ConfigError(f"hops={self.hops}; use 1 or 2")

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        most = min(len(LANDMARKS), len(GIVEN_NAMES))
        count = max(self.keys, len(numbers))
        if count > most:
            raise ConfigError(f"{count} people in one haystack; use at most {most}")
        people, landmarks = rng.sample(GIVEN_NAMES, count), rng.sample(LANDMARKS, count)
        facts = [_fact(person, landmark, rng) for person, landmark in zip(people, landmarks, strict=True)]
        questions = []
        for i in rng.sample(spread(len(numbers), count), len(numbers)):
            place = landmarks[i].city if self.hops == 1 else landmarks[i].country
            fields = {
                "question": rng.choice(QUESTIONS).format(place=place),
                "answer_lead": f"The one who has been to {place} is",
            }
            questions.append(Question.about(fields, people, i))
        return Haystack(evenly_spaced(facts, depth_shift), questions, frozenset(people) | _places(landmarks))


def _fact(person: str, landmark: Landmark, rng: random.Random) -> str:
    capitalized = landmark.name[0].upper() + landmark.name[1:]
    return rng.choice(FACTS).format(name=person, landmark=landmark.name, Landmark=capitalized)


def _places(landmarks: list[Landmark]) -> frozenset[str]:
    """Returns what the filler must not mention: it could answer a question, or share a word with one."""
    return frozenset(word.removeprefix("the ") for landmark in landmarks for word in landmark)


niah_nonliteral = HaystackDataset(Residents)
