"""Makes up words of three syllables: enough for long lists, equal in length, and unknown to every model."""

from __future__ import annotations

import random
import re

INITIALS = "bdfghjklmnprstvwz"
_VOWELS = "aiou"
_SYLLABLES = tuple(initial + vowel for initial in INITIALS for vowel in _VOWELS)

MADE_UP_WORDS = len(_SYLLABLES) ** 3
MADE_UP_WORD = re.compile(rf"(?:[{INITIALS}][{_VOWELS}]){{3}}")

_STRIDE = 123_457  # shares no factor with MADE_UP_WORDS, so that neighbours are unlike


def made_up_word(number: int) -> str:
    """Returns a word of six letters such as ``tamiro``, another for every number from 0 to MADE_UP_WORDS - 1."""
    rest, third = divmod(number * _STRIDE % MADE_UP_WORDS, len(_SYLLABLES))
    first, second = divmod(rest, len(_SYLLABLES))
    return _SYLLABLES[first] + _SYLLABLES[second] + _SYLLABLES[third]


def draw_words(count: int, rng: random.Random, initial: str | None = None) -> list[str]:
    """Draws `count` different words, all with the same initial if one is given."""
    firsts = [syllable for syllable in _SYLLABLES if initial in (None, syllable[0])]
    found: dict[str, None] = {}
    while len(found) < count:
        found[rng.choice(firsts) + rng.choice(_SYLLABLES) + rng.choice(_SYLLABLES)] = None
    return list(found)
