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


_MONTHS = ("january february march april may june july august september october november december").split()  # noqa: SIM905
_MONTH = rf"(?P<{{0}}>{'|'.join(f'{month[:3]}(?:{month[3:]})?' for month in _MONTHS)}|sept)\b\.?"
_DAY = r"(?P<{0}>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"""
      \b{_MONTH.format("month")}\s+(?:the\s+)?{_DAY.format("day")}(?!\w)(?:,?\s+(?P<year>\d{{4}})\b)?
    | \b{_DAY.format("first")}\s+(?:of\s+)?{_MONTH.format("second")}(?:,?\s+(?P<third>\d{{4}})\b)?
    | \b(?P<iso_year>\d{{4}})-(?P<iso_month>0[1-9]|1[0-2])-(?P<iso_day>0[1-9]|[12]\d|3[01])\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def one_order_of_dates(text: str) -> str:
    """Writes dates in one order: July 4, 1776, 4th of July 1776 and 1776-07-04 become 4 july 1776."""
    return _DATE.sub(_date, text)


def _date(match: re.Match[str]) -> str:
    year = match["year"] or match["third"] or match["iso_year"] or ""
    day = match["day"] or match["first"] or match["iso_day"]
    written = match["month"] or match["second"]
    month = _MONTHS[int(match["iso_month"]) - 1] if written is None else _month_named(written)
    return f"{int(day)} {month} {year}".strip()


def _month_named(written: str) -> str:
    return next(month for month in _MONTHS if month.startswith(written[:3].lower()))


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
