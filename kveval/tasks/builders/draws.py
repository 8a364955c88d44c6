"""Makes seeded random generators, draws names and numbers from them, and chooses which needles to ask for."""

from __future__ import annotations

import hashlib
import json
import random

from kveval.errors import ConfigError
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS


def seeded(*address: str | int) -> random.Random:
    """Returns a generator seeded by the sha256 of an address such as (task, context_length, haystack index, seed).

    The same address gives the same numbers on every machine, in every order, alone or in a batch.
    """
    digest = hashlib.sha256(json.dumps(address).encode()).digest()
    return random.Random(int.from_bytes(digest, "big"))  # noqa: S311


def draw_names(count: int, rng: random.Random) -> list[str]:
    """Draws hyphenated names such as ``amber-falcon``, none twice. Different names may share a word."""
    most = len(ADJECTIVES) * len(NOUNS)
    if count > most:
        raise ConfigError(f"{count} names in one haystack; use at most {most}")
    return [pair_of_words(number) for number in rng.sample(range(most), count)]


def pair_of_words(number: int) -> str:
    """Returns the hyphenated name of a number from 0 to len(ADJECTIVES) * len(NOUNS) - 1."""
    adjective, noun = divmod(number, len(NOUNS))
    return f"{ADJECTIVES[adjective]}-{NOUNS[noun]}"


def draw_numbers(count: int, digits: int, rng: random.Random) -> list[str]:
    """Draws whole numbers of so many digits, none twice."""
    return [str(number) for number in rng.sample(range(10 ** (digits - 1), 10**digits), count)]


def spread(asked: int, count: int) -> list[int]:
    """Returns `asked` evenly spaced indexes below `count`."""
    return [(2 * i + 1) * count // (2 * asked) for i in range(asked)]


def is_absent(number: int, absent_share: float) -> bool:
    """Says whether the answer to a cell's sample `number` is absent.

    Of the first n samples, exactly floor(n * absent_share) are absent, spread evenly.
    """
    return int((number + 1) * absent_share) > int(number * absent_share)
