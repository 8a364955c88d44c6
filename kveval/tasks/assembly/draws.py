"""What builders draw from a haystack's generator: names, numbers, and which needles to ask for."""

from __future__ import annotations

import random

from kveval.errors import ConfigError
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS


def draw_names(count: int, rng: random.Random) -> list[str]:
    """Hyphenated names such as ``amber-falcon``, none twice; different names may share a word.

    Raises:
        ConfigError: more names than there are pairs of words.
    """
    most = len(ADJECTIVES) * len(NOUNS)
    if count > most:
        raise ConfigError(f"{count} names in one haystack; allowed: up to {most}")
    return [pair_of_words(number) for number in rng.sample(range(most), count)]


def pair_of_words(number: int) -> str:
    """The hyphenated name of a number from 0 to len(ADJECTIVES) * len(NOUNS) - 1."""
    adjective, noun = divmod(number, len(NOUNS))
    return f"{ADJECTIVES[adjective]}-{NOUNS[noun]}"


def draw_numbers(count: int, digits: int, rng: random.Random) -> list[str]:
    """Whole numbers of so many digits, none twice."""
    return [str(number) for number in rng.sample(range(10 ** (digits - 1), 10**digits), count)]


def spread(asked: int, count: int) -> list[int]:
    """`asked` of `count` indexes, evenly spaced."""
    return [(2 * i + 1) * count // (2 * asked) for i in range(asked)]
