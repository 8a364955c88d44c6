"""Recognizes outputs that no longer are answers: loops, mixed scripts, fluent text about something else.

The rules are strict, so that a right answer is never taken for one. scripts/bench degeneration measures how often they
are met by ordinary outputs and by right long lists.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

import regex

Degeneration = Literal["loop", "scripts", "unrelated"]

_TAIL_CHARACTERS = 2_000
# (least characters, least repeats) of what is repeated up to the end.
_LOOPS = ((16, 6), (60, 4), (120, 3))
_LONGEST_RULER = 200  # a line of dashes or dots
_SCRIPTS = {
    "latin": r"\p{Latin}", "cyrillic": r"\p{Cyrillic}", "greek": r"\p{Greek}", "arabic": r"\p{Arabic}",
    "hebrew": r"\p{Hebrew}", "devanagari": r"\p{Devanagari}", "bengali": r"\p{Bengali}", "tamil": r"\p{Tamil}",
    "thai": r"\p{Thai}", "hangul": r"\p{Hangul}", "east asian": r"[\p{Han}\p{Hiragana}\p{Katakana}]",
    "georgian": r"\p{Georgian}", "armenian": r"\p{Armenian}", "telugu": r"\p{Telugu}", "khmer": r"\p{Khmer}",
}  # fmt: skip
_PATTERNS = {script: regex.compile(pattern) for script, pattern in _SCRIPTS.items()}
_MOST_SCRIPTS = 2
_LEAST_LETTERS, _LEAST_SHARE = 3, 0.03
_BROKEN = "\N{REPLACEMENT CHARACTER}"
_MOST_BROKEN = 2  # an output may end in the middle of one character
_WORD = re.compile(r"[^\W\d_]+")
_TOKEN = re.compile(r"\S+")
_LEAST_WORDS = 25
_LEAST_FUNCTION_SHARE = 0.25
_CONTENT_LETTERS = 4
_FUNCTION_WORDS = frozenset(
    """a an the of to in on at by for from with and or but as is was are were be been it its he she they we you i this
    that these those his her their our my your not no so if than then there which who what when where how all one had
    has have do does did will would can could about into out up more some""".split()  # noqa: SIM905
)


def degeneration(text: str, question: str = "") -> Degeneration | None:
    """Returns how an output has degenerated. None for any other output, right or wrong.

    ``loop``
        it ends with the same characters again and again: 6 times and 16 characters in all, 4 times and 60, or 3 times
        and 120. Lines of nothing but punctuation may be longer.
    ``scripts``
        its letters come from three scripts or more, at least 3 letters and 3% of each, or it has more than two
        characters that no decoder could read.
    ``unrelated``
        it is prose of 25 words or more, a quarter of them function words of English, and has no word of four letters or
        more in common with the question. Only with a question that has such words. What names planted values is
        related; leave the question out for it.
    """
    if _loops(text):
        return "loop"
    if _mixes_scripts(text):
        return "scripts"
    return "unrelated" if _is_unrelated(text, question) else None


def _loops(text: str) -> bool:
    tail = " ".join(text[-_TAIL_CHARACTERS:].split())[::-1]
    border = [0] * len(tail)  # of each beginning, the longest end of it that it begins with
    for end in range(1, len(tail)):
        length = border[end - 1]
        while length and tail[end] != tail[length]:
            length = border[length - 1]
        border[end] = length + (tail[end] == tail[length])
        size, unit = end + 1, end + 1 - border[end]
        if any(size >= least and size + 1 >= times * unit for least, times in _LOOPS) and (
            size >= _LONGEST_RULER or any(character.isalnum() for character in tail[:unit])
        ):
            return True
    return False


def _mixes_scripts(text: str) -> bool:
    if text.isascii():
        return False
    if text.count(_BROKEN) > _MOST_BROKEN:
        return True
    counts = Counter({script: len(pattern.findall(text)) for script, pattern in _PATTERNS.items()})
    least = max(_LEAST_LETTERS, _LEAST_SHARE * counts.total())
    return sum(count >= least for count in counts.values()) > _MOST_SCRIPTS


def _is_unrelated(text: str, question: str) -> bool:
    asked = {word for word in _words(question) if len(word) >= _CONTENT_LETTERS} - _FUNCTION_WORDS
    said = _words(text)
    if not asked or len(said) < _LEAST_WORDS or len(said) < len(_TOKEN.findall(text)) * 3 // 4:
        return False
    fluent = sum(word in _FUNCTION_WORDS for word in said) >= _LEAST_FUNCTION_SHARE * len(said)
    return fluent and asked.isdisjoint(said)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
