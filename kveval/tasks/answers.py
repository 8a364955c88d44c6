"""Free-text answers compared with references, as SQuAD's evaluation does (arXiv 1806.03822, evaluate-v2.0.py)."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

_ARTICLES = frozenset(("a", "an", "the"))
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_DIGITS = {word: str(number) for number, word in enumerate(_NUMBERS)}
_PARTING = re.compile(r"[-‐-―−/]")
_PUNCTUATION = re.compile(r"[^\w\s]|_")


def normalized(text: str) -> str:
    """Lower case, without articles, punctuation, accents and surplus space, number words up to twelve as digits.

    Punctuation vanishes ("U.S." is "us"), as in SQuAD; but hyphens, dashes and slashes part words and "&" is "and",
    since models write either as they please.
    """
    plain = unicodedata.normalize("NFKD", text).casefold()
    if not plain.isascii():
        plain = "".join(character for character in plain if not unicodedata.combining(character))
    plain = _PUNCTUATION.sub("", _PARTING.sub(" ", plain.replace("&", " and ")))
    return " ".join(_DIGITS.get(word, word) for word in plain.split() if word not in _ARTICLES)


def contains(text: str, reference: str) -> bool:
    """Whether `reference` stands in `text` as whole words, both normalized."""
    return holds(normalized(text), normalized(reference))


def holds(text: str, reference: str) -> bool:
    """`contains` of texts that are normalized already."""
    return bool(reference) and f" {reference} " in f" {text} "


def token_f1(text: str, references: Iterable[str]) -> float:
    """Best F1, in [0, 1], of the words a text shares with one of the references, both normalized."""
    given = normalized(text).split()
    return max((_f1(given, normalized(reference).split()) for reference in references), default=0.0)


def _f1(given: list[str], wanted: list[str]) -> float:
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 2 * shared / (len(given) + len(wanted)) if shared else 0.0
