"""Reads numbers by their value, however they are written."""

from __future__ import annotations

import re
from decimal import Decimal

LONG_NUMBER_DIGITS = 5
"""Planted values have at least so many digits, so a longer number in an answer claims one; a year does not."""

# 10,000 and, as India groups digits, 1,00,000. The separator is the same throughout.
_GROUPED = r"(?<![\d.,])\d{{1,3}}([{}])(?:\d\d\1)*\d{{3}}(?:\1\d{{3}})*(?!\d|\1\d)"
_THOUSANDS = re.compile(_GROUPED.format(",'_"))
_SPACED_THOUSANDS = re.compile(_GROUPED.format(",'_ ."))
_NARROW_SPACE = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3})")
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d{1,2})?", re.IGNORECASE)


def mark_narrow_spaces(text: str) -> str:
    """Writes "_" for the narrow spaces that group digits, before Unicode's compatibility form makes them plain."""
    return _NARROW_SPACE.sub("_", text)


def join_thousands(text: str, *, spaced: bool) -> str:
    """Removes what groups the digits: 10,000 becomes 10000. `spaced` also joins "1 234 567" and "1.234.567"."""
    pattern = _SPACED_THOUSANDS if spaced else _THOUSANDS
    return pattern.sub(lambda match: re.sub(r"\D", "", match[0]), text)


def by_value(word: str) -> str:
    """Writes a number as its value reads: 3.0 is 3, .5 is 0.5, 1e6 is 1000000. Returns any other word as it is.

    007 stays as it is, because it is a name, not the number 7.
    """
    if word[0] == "–":
        word = f"-{word[1:]}"
    if (word.isalnum() and "e" not in word and "E" not in word) or not _NUMBER.fullmatch(word):
        return word
    plain = format(Decimal(word), "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
