"""Tells a name from a longer name that holds it: New York is not York."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")
_BEFORE = frozenset(
    """new north south east west northern southern eastern western non anti ex vice deputy equatorial papua""".split()  # noqa: SIM905
)
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_DIGIT_OF = {word: str(number) for number, word in enumerate(_NUMBERS)}
_TENS = frozenset(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"])
_DIGITS = frozenset("123456789")
_SCALES = frozenset(["hundred", "thousand", "million", "billion", "trillion"])
_ROMAN = re.compile(r"(?:II|III|IV|VI{0,3}|IX|XI{0,3}|XIV|XV|XVI)\Z")


def stands_only_in_longer_names(text: str, reference: str) -> bool:
    """Returns whether every place where a text has the words of a reference is part of a longer name or number.

    Which words make another name is a short list: directions, "new", "vice", a Roman numeral after it, a number word
    before or after it, or a capital behind a hyphen. "Abraham Lincoln" still names Lincoln.
    """
    words = list(_WORD.finditer(text))
    said, wanted = [_folded(word[0]) for word in words], [_folded(word) for word in _WORD.findall(reference)]
    places = [at for at in range(len(said) - len(wanted) + 1) if said[at : at + len(wanted)] == wanted]
    return bool(wanted and places) and all(_is_inside(text, words, said, at, len(wanted)) for at in places)


def _folded(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word)
    folded = "".join(character for character in plain if not unicodedata.combining(character)).casefold()
    return _DIGIT_OF.get(folded, folded)


def _is_inside(text: str, words: Sequence[re.Match[str]], said: Sequence[str], at: int, length: int) -> bool:
    first, last = words[at], words[at + length - 1]
    if at:
        before, gap = words[at - 1], text[words[at - 1].end() : first.start()]
        name = first[0][0].isupper() and not before[0][0].isupper()
        if gap in (" ", "-") and said[at - 1] in _BEFORE and not (name and gap == " "):
            return True
        if gap in (" ", "-") and said[at - 1] in _TENS and said[at] in _DIGITS:
            return True
        if gap == "-" and before[0][0].isupper() and first[0][0].isupper():
            return True
    if at + length < len(words):
        after, gap = words[at + length], text[last.end() : words[at + length].start()]
        is_number = said[at + length - 1].isdecimal()
        if gap in (" ", "-") and is_number and said[at + length] in _SCALES:
            return True
        if gap == " " and last[0][0].isupper() and _ROMAN.match(after[0]):
            return True
        if gap == "-" and last[0][0].isupper() and after[0][0].isupper():
            return True
    return False
