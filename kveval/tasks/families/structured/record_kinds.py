"""Kinds of records: what fields they have, and how they read in prose and in a register."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kveval.tasks.builders.draws import draw_names
from kveval.tasks.corpora.words import GIVEN_NAMES

Record = dict[str, Any]

_FAMILY_NAMES = (
    "Abara", "Bergqvist", "Castellano", "Demirci", "Eriksen", "Farkas", "Galvez", "Haddad", "Ivanova", "Jankowski",
    "Kaplan", "Lindholm", "Moreau", "Nakamura", "Okafor", "Pereira", "Quispe", "Rossi", "Sandoval", "Tanaka", "Ueda",
    "Varga", "Wierzba", "Yilmaz", "Zambrano",
)  # fmt: skip
_TOWNS = (
    "Aalborg", "Bergamo", "Coimbra", "Dundee", "Eindhoven", "Freiburg", "Gdynia", "Haarlem", "Innsbruck", "Jaca",
    "Kaunas", "Lund", "Malmo", "Nantes", "Olomouc", "Perugia", "Quimper", "Rostock", "Sintra", "Tartu", "Utrecht",
)  # fmt: skip
_GOODS = (
    "copper kettles", "oak benches", "wool blankets", "brass lanterns", "garden chairs", "glass jars", "leather belts",
    "paper lamps", "steel shelves", "wicker baskets",
)  # fmt: skip
_JOBS = ("welder", "nurse", "surveyor", "baker", "translator", "electrician", "gardener", "bookkeeper", "tailor")
_SEVERITIES = ("info", "warning", "error", "critical")
_SERVICES = ("billing", "search", "login", "mailer", "indexer", "gateway", "uploader", "scheduler", "archive")


@dataclass(frozen=True)
class RecordKind:
    """One kind of record.

    Attributes:
        noun, plural: its name.
        key: field that names a record. No two records of a haystack share it.
        group: field by which several records are asked for.
        properties: JSON schema of every field.
        draw: fields of a record but `key` and `group`.
        draw_key, draw_group: a new value of the field.
        sentences: two sentences that hold all fields between them, both with the key.
        line: all fields in one line of a register.
    """

    noun: str
    plural: str
    key: str
    group: str
    properties: Mapping[str, Mapping[str, Any]]
    draw: Callable[[random.Random], Record]
    draw_key: Callable[[random.Random], str]
    draw_group: Callable[[random.Random], str]
    sentences: Callable[[Record], tuple[str, str]]
    line: Callable[[Record], str]

    def record(self, rng: random.Random, group: str | None = None) -> Record:
        """Draws a record, its fields in the order of the schema."""
        fields = self.draw(rng) | {self.key: self.draw_key(rng), self.group: group or self.draw_group(rng)}
        return {name: fields[name] for name in self.properties}

    def schema(self) -> dict[str, Any]:
        """Returns the JSON schema of one record: all fields are required and no others are accepted."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.properties.items()},
            "required": list(self.properties),
            "additionalProperties": False,
        }


def _code(letter: str) -> Callable[[random.Random], str]:
    return lambda rng: f"{letter}-{rng.randrange(100_000, 1_000_000)}"


def _person(rng: random.Random) -> str:
    return f"{rng.choice(GIVEN_NAMES)} {rng.choice(_FAMILY_NAMES)}"


def _name(rng: random.Random) -> str:
    return draw_names(1, rng)[0]


def _decimal(rng: random.Random, low: int, high: int) -> float:
    """Draws a number with two decimals, the last not 0. The bounds are in hundredths."""
    return (rng.randrange(low, high) // 10 * 10 + rng.randrange(1, 10)) / 100


_STRING, _INTEGER, _NUMBER, _BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))

ORDERS = RecordKind(
    noun="order",
    plural="orders",
    key="order_number",
    group="customer",
    properties={
        "order_number": _STRING,
        "customer": _STRING,
        "product": _STRING,
        "quantity": _INTEGER,
        "unit_price_eur": _NUMBER,
        "town": _STRING,
        "ships_on": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "paid": _BOOLEAN,
    },
    draw=lambda rng: {
        "product": rng.choice(_GOODS),
        "quantity": rng.randrange(2, 100),
        "unit_price_eur": _decimal(rng, 500, 10_000),
        "town": rng.choice(_TOWNS),
        "ships_on": f"20{rng.randrange(10, 30)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
        "paid": rng.random() < 0.5,
    },
    draw_key=_code("A"),
    draw_group=_person,
    sentences=lambda r: (
        f"Order {r['order_number']} by {r['customer']} is for {r['quantity']} {r['product']} "
        f"at {r['unit_price_eur']:.2f} euros each.",
        f"Order {r['order_number']} ships to {r['town']} on {r['ships_on']} and has "
        f"{'been paid' if r['paid'] else 'not been paid'}.",
    ),
    line=lambda r: (
        f"Order {r['order_number']} by {r['customer']}: {r['quantity']} {r['product']} at {r['unit_price_eur']:.2f} "
        f"euros each, ships to {r['town']} on {r['ships_on']}, {'paid' if r['paid'] else 'not paid'}."
    ),
)

PEOPLE = RecordKind(
    noun="staff member",
    plural="staff members",
    key="staff_id",
    group="team",
    properties={
        "staff_id": _STRING,
        "name": _STRING,
        "job": _STRING,
        "team": _STRING,
        "birth_year": _INTEGER,
        "town": _STRING,
        "height_m": _NUMBER,
        "has_licence": _BOOLEAN,
    },
    draw=lambda rng: {
        "name": _person(rng),
        "job": rng.choice(_JOBS),
        "birth_year": rng.randrange(1950, 2005),
        "town": rng.choice(_TOWNS),
        "height_m": _decimal(rng, 150, 200),
        "has_licence": rng.random() < 0.5,
    },
    draw_key=_code("S"),
    draw_group=_name,
    sentences=lambda r: (
        f"Staff member {r['staff_id']} is {r['name']}, a {r['job']} in team {r['team']}.",
        f"Staff member {r['staff_id']} was born in {r['birth_year']}, lives in {r['town']}, is {r['height_m']:.2f} "
        f"metres tall and has {'a' if r['has_licence'] else 'no'} driving licence.",
    ),
    line=lambda r: (
        f"Staff member {r['staff_id']} in team {r['team']}: {r['name']}, {r['job']}, born in {r['birth_year']}, lives "
        f"in {r['town']}, {r['height_m']:.2f} metres tall, {'a' if r['has_licence'] else 'no'} driving licence."
    ),
)

INCIDENTS = RecordKind(
    noun="incident",
    plural="incidents",
    key="incident_id",
    group="host",
    properties={
        "incident_id": _STRING,
        "host": _STRING,
        "service": _STRING,
        "severity": {"enum": list(_SEVERITIES)},
        "duration_ms": _INTEGER,
        "load": _NUMBER,
        "resolved": _BOOLEAN,
    },
    draw=lambda rng: {
        "service": rng.choice(_SERVICES),
        "severity": rng.choice(_SEVERITIES),
        "duration_ms": rng.randrange(100, 10_000),
        "load": _decimal(rng, 10, 100),
        "resolved": rng.random() < 0.5,
    },
    draw_key=_code("E"),
    draw_group=_name,
    sentences=lambda r: (
        f"Incident {r['incident_id']} hit the {r['service']} service on host {r['host']} with severity "
        f"{r['severity']}.",
        f"Incident {r['incident_id']} lasted {r['duration_ms']} milliseconds at a load of {r['load']:.2f} and was "
        f"{'resolved' if r['resolved'] else 'not resolved'}.",
    ),
    line=lambda r: (
        f"Incident {r['incident_id']} on host {r['host']}: service {r['service']}, severity {r['severity']}, "
        f"{r['duration_ms']} milliseconds, load {r['load']:.2f}, {'resolved' if r['resolved'] else 'not resolved'}."
    ),
)

RECORD_KINDS = (ORDERS, PEOPLE, INCIDENTS)
