"""Finds a choice that is named by a word which prose is full of: "A", "I", "the"."""

from __future__ import annotations

import regex

ARTICLES = frozenset(("a", "an", "the"))
_PROSE = ARTICLES | {"i"}
# "A is" and "A because" speak of the choice A; "A city" does not.
_CHOICE = r"""
    (?: (?i:\b(?:option|answer|choice|letter))\s+[^\w\s]*{0}(?![\p{{Latin}}\p{{N}}])
    | (?<![\p{{Latin}}\p{{M}}\p{{N}}]){0}(?![\p{{Latin}}\p{{M}}\p{{N}}'’+])(?!\s+(?!(?:is|and|or|because)\b)\p{{Ll}}) )
"""


def is_choice(words: list[str]) -> bool:
    """Returns whether the words of a reference are so common that only their spelling tells a choice from prose."""
    return bool(words) and _PROSE.issuperset(word.casefold() for word in words)


def chooses(text: str, choice: str) -> bool:
    """Returns whether a text names a choice as it is written, and not as a word of a sentence."""
    return bool(regex.search(_CHOICE.format(regex.escape(choice.strip())), text, regex.VERBOSE))
