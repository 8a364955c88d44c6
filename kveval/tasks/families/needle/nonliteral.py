"""Needles that share no word with their question, as in NoLiMa (arXiv 2502.05167): world knowledge links the two."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Question, evenly_spaced
from kveval.tasks.builders.draws import spread
from kveval.tasks.corpora.words import GIVEN_NAMES
from kveval.tasks.dataset import HaystackDataset


class Landmark(NamedTuple):
    """A sight known by a name that shares no word with its city's or its country's.

    Attributes:
        name: as it stands in a sentence, with its article.
    """

    name: str
    city: str
    country: str


LANDMARKS = (
    Landmark("the Eiffel Tower", "Paris", "France"),
    Landmark("the Semper Opera House", "Dresden", "Germany"),
    Landmark("the Colosseum", "Rome", "Italy"),
    Landmark("the Sagrada Família", "Barcelona", "Spain"),
    Landmark("the Hagia Sophia", "Istanbul", "Turkey"),
    Landmark("the Charles Bridge", "Prague", "the Czech Republic"),
    Landmark("the Atomium", "Brussels", "Belgium"),
    Landmark("the Rijksmuseum", "Amsterdam", "the Netherlands"),
    Landmark("the Parthenon", "Athens", "Greece"),
    Landmark("the Belém Tower", "Lisbon", "Portugal"),
    Landmark("Schönbrunn Palace", "Vienna", "Austria"),
    Landmark("the Fisherman's Bastion", "Budapest", "Hungary"),
    Landmark("the statue of the Little Mermaid", "Copenhagen", "Denmark"),
    Landmark("the Vasa Museum", "Stockholm", "Sweden"),
    Landmark("the Holmenkollen ski jump", "Oslo", "Norway"),
    Landmark("the Temppeliaukio Church", "Helsinki", "Finland"),
    Landmark("the Hallgrímskirkja", "Reykjavik", "Iceland"),
    Landmark("the Ha'penny Bridge", "Dublin", "Ireland"),
    Landmark("Trafalgar Square", "London", "the United Kingdom"),
    Landmark("Wawel Castle", "Kraków", "Poland"),
    Landmark("the Kremlin's Spasskaya Tower", "Moscow", "Russia"),
    Landmark("the Khan el-Khalili bazaar", "Cairo", "Egypt"),
    Landmark("the Table Mountain cableway", "Cape Town", "South Africa"),
    Landmark("the Jemaa el-Fnaa", "Marrakesh", "Morocco"),
    Landmark("the Burj Khalifa", "Dubai", "the United Arab Emirates"),
    Landmark("the Azadi Tower", "Tehran", "Iran"),
    Landmark("the Registan", "Samarkand", "Uzbekistan"),
    Landmark("the Badshahi Mosque", "Lahore", "Pakistan"),
    Landmark("the Charminar", "Hyderabad", "India"),
    Landmark("the Boudhanath stupa", "Kathmandu", "Nepal"),
    Landmark("the Shwedagon Pagoda", "Yangon", "Myanmar"),
    Landmark("Wat Arun", "Bangkok", "Thailand"),
    Landmark("the Petronas Towers", "Kuala Lumpur", "Malaysia"),
    Landmark("the Senso-ji temple", "Tokyo", "Japan"),
    Landmark("Gyeongbokgung Palace", "Seoul", "South Korea"),
    Landmark("the Temple of Heaven", "Beijing", "China"),
    Landmark("Hoan Kiem Lake", "Hanoi", "Vietnam"),
    Landmark("Bondi Beach", "Sydney", "Australia"),
    Landmark("the Te Papa museum", "Wellington", "New Zealand"),
    Landmark("the CN Tower", "Toronto", "Canada"),
    Landmark("the Space Needle", "Seattle", "the United States"),
    Landmark("the Soumaya Museum", "Mexico City", "Mexico"),
    Landmark("the statue of Christ the Redeemer", "Rio de Janeiro", "Brazil"),
    Landmark("La Bombonera stadium", "Buenos Aires", "Argentina"),
    Landmark("La Moneda Palace", "Santiago", "Chile"),
    Landmark("the Monserrate hill", "Bogotá", "Colombia"),
    Landmark("the Capitolio", "Havana", "Cuba"),
    Landmark("the Palacio Salvo", "Montevideo", "Uruguay"),
    Landmark("the Miraflores Locks", "Panama City", "Panama"),
    Landmark("the Latin Bridge", "Sarajevo", "Bosnia and Herzegovina"),
    Landmark("the Kalemegdan fortress", "Belgrade", "Serbia"),
    Landmark("Gediminas' Tower", "Vilnius", "Lithuania"),
    Landmark("Kadriorg Palace", "Tallinn", "Estonia"),
    Landmark("the Maidan Nezalezhnosti", "Kyiv", "Ukraine"),
    Landmark("the Jet d'Eau", "Geneva", "Switzerland"),
    Landmark("Angkor Wat", "Siem Reap", "Cambodia"),
    Landmark("Rizal Park", "Manila", "the Philippines"),
    Landmark("Uhuru Gardens", "Nairobi", "Kenya"),
    Landmark("Meskel Square", "Addis Ababa", "Ethiopia"),
    Landmark("the Black Star Gate", "Accra", "Ghana"),
    Landmark("the Flame Towers", "Baku", "Azerbaijan"),
    Landmark("the Narikala fortress", "Tbilisi", "Georgia"),
    Landmark("the Matenadaran", "Yerevan", "Armenia"),
    Landmark("the Souq Waqif", "Doha", "Qatar"),
)


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
