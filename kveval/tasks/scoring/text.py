"""Reads free text as words, so that answers are compared and their wording is not.

`Normalizer` is the only code in kveval that does this. Some rules hold for every family:

- Markup, punctuation and accents do not count: "**Milan Panić**!" reads "milan panic".
- A sign or a decimal point belongs to its number: "-5" is not "5", "3.5" is neither "35" nor "3". A hyphen in a range
  or in a word is not a sign: "1914-1918", "COVID-19".
- Numbers compare by value: "3.50" is "3.5", "10,000" is "10000", "minus 5" is "-5". "10²" is "10 2", not "102".
- Scripts that write no spaces give one word for each character: "値は48213です" names "48213".

Everything else is an option, because what is only wording in one family is damage in another. `VALUES`, `PROSE`,
`PROSE_ANSWERS` and `CODE` are the combinations in use. tests/data/normalizer.yaml lists cases for each rule and option.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace

import regex

from kveval.tasks.scoring.numbers import (
    LONG_NUMBER_DIGITS,
    by_value,
    join_thousands,
    mark_narrow_spaces,
    one_order_of_dates,
)
from kveval.tasks.scoring.wording.longer_names import stands_only_in_longer_names

_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
}

_ESCAPE = re.compile(r"\\(?=[-+#.,_*`])|\{(?=,\})|(?<=\{,)\}")
_EMPHASIS = re.compile(r"(?<!\w)(_{1,3})(?=[^\W_])(.{0,200}?[^\s_])\1(?!\w)")
_LIST_MARK = re.compile(rf"^[^\w\n]*\d{{1,3}}[.)](?=\s*\d{{{LONG_NUMBER_DIGITS}}})|^[^\S\n]*[-–](?=\d)", re.MULTILINE)
# One dash or "1." may be a sign or a decimal. Two lines that begin so are a list.
_LEAST_LIST_MARKS = 2
_POSSESSIVE = regex.compile(r"(?<=\w)['’‘]s(?!\w)|(?<=[sS])['’‘](?!\w)", regex.IGNORECASE)
_RAISED = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹¼-¾⅐-⅞])")
_ACCENT = regex.compile(r"(?<=[\s\p{Latin}\p{Greek}\p{Cyrillic}\p{Arabic}\p{Hebrew}])\p{M}+")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*")
_DASHES = str.maketrans("‐‑−", "---")
_MINUS = re.compile(r"\b(?:minus|negative)\s+(?=\.?\d)", re.IGNORECASE)
_INVISIBLE = regex.compile(r"[\p{Cf}\uFE00-\uFE0F\u20E3]")  # the last ones draw a key around a digit
_CURRENCY = re.compile(r"(?<=[-–])[$€£¥](?=\.?\d)")  # -$5
_APOSTROPHE = regex.compile(r"(?<=\w)['’‘](?=\p{L})")
_SPELLING = regex.compile(
    r"""
      (?<=\p{L})\.(?=\p{L}(?![\p{L}\d]))   # U.S., Ph.D.
    | (?<=\p{L})\^(?=\d)                   # km^2 is km²
    """,
    regex.VERBOSE,
)
_SIGN = r"(?:[-–](?<![\w)\]%°–-].)(?<!\d[ ].)(?=\.?\d))?"  # -5, but neither a range nor a hyphen
_CLOCK = r"(?<=\d):(?=\d{1,4}[^\W\d_]{0,4}(?![^\W_]))"  # 10:30, 10:30pm; but "1:48213" numbers a line
_WORD = regex.compile(
    rf"""
      {_SIGN}
      (?:\.(?<![\w.].)(?=\d))?                                              # .5
      [^\W_]+(?:(?:(?<=\d)\.|{_CLOCK}|(?<=\de)[-+])(?=\d)[^\W_]+)*          # 3.5, 10:30, v1.2, 1e-6
      (?:(?<=\p{{L}})(?:\+\+|[+#](?!\w)))?                                  # C++, C#
    """,
    regex.VERBOSE,
)
_IDENTIFIER = regex.compile(rf"{_SIGN}\w+(?:(?:(?<=\d)\.|(?<=\d[eE])[-+])(?=\d)\w+)*")

ARTICLES = frozenset(("a", "an", "the"))
_COMMON_CHOICES = ARTICLES | {"i"}
# "A is" and "A because" speak of the choice A; "A city" does not.
_CHOICE = r"""
    (?: (?i:\b(?:option|answer|choice|letter))\s+[^\w\s]*{0}(?![\p{{Latin}}\p{{N}}])
    | (?<![\p{{Latin}}\p{{M}}\p{{N}}]){0}(?![\p{{Latin}}\p{{M}}\p{{N}}'’+])(?!\s+(?!(?:is|and|or|because)\b)\p{{Ll}}) )
"""


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Turns a text into its words. Each option says what makes no difference, or what does.

    Attributes:
        case_sensitive: keeps upper and lower case apart. In Python, `none` is not `None`; in prose, "ROLLO" is Rollo.
        identifiers: underscores belong to words. In Python, `amber_falcon` is not "amber falcon"; in a document,
            "new_york" is New York. Also leaves out the spellings of prose, such as "U.S." and "C++".
        spaced_thousands: "1 234 567" and "1.234.567" are one number. Made-up values are long, so they are. A document
            may hold "1 234" as two numbers and "1.234" as a decimal.
        list_marks: where two lines or more begin with a dash or with "1.", it marks a list: "-4811391\\n-7654321" names
            both numbers. A single "-4811391" is a negative number, in every family. Where "-5" may be an answer, two
            of them are negative too.
        joins_apostrophes: "O'Brien" is "OBrien". Where names are asked for, "Yuki's" must still name Yuki.
        drops_articles: "the Norse leader" is "Norse leader". In a variable's name, every word counts.
        number_words: "seven miles" is "7 miles". In source code, a function named `seven` is not the number 7.
        possessives: "Rollo's men" names "Rollo men". In code, `'s` may be the content of a string.
        dates: "4 July 1776" and "1776-07-04" name "July 4, 1776". In a list of values, the order of words counts.
        whole_names: "New York" does not name York, nor "7 million" 7. In a list of words, each word counts.
    """

    case_sensitive: bool = False
    identifiers: bool = False
    spaced_thousands: bool = False
    list_marks: bool = False
    joins_apostrophes: bool = False
    drops_articles: bool = False
    number_words: bool = False
    possessives: bool = False
    dates: bool = False
    whole_names: bool = False

    def words(self, text: str) -> list[str]:
        """Returns the words of a text in their order, numbers as their value reads."""
        pattern = _IDENTIFIER if self.identifiers else _WORD
        words = [by_value(word) for word in pattern.findall(self.plain(text))]
        if self.number_words:
            words = [_NUMBER_WORDS.get(word, word) for word in words]
        if self.drops_articles:
            return [word for word in words if word not in ARTICLES] or words
        return words

    def normalize(self, text: str) -> str:
        """Returns the words of a text with one space between them."""
        return " ".join(self.words(text))

    def names(self, text: str, reference: str) -> bool:
        """Returns whether the words of a reference stand in a text, one after the other.

        A reference that is only "A", "I" or "the" must stand there as it is written, and not as a word of a sentence.
        """
        wanted = self.words(reference)
        if is_choice(wanted):
            return chooses(text, reference)
        if not holds(self.normalize(text), " ".join(wanted)) and not (
            self.possessives and self._names_without_possessives(text, reference)
        ):
            return False
        return not (self.whole_names and stands_only_in_longer_names(text, reference))

    def _names_without_possessives(self, text: str, reference: str) -> bool:
        plain, wanted = (_POSSESSIVE.sub("", part) for part in (text, reference))
        return plain != text and holds(self.normalize(plain), self.normalize(wanted))

    def plain(self, text: str) -> str:
        """Returns the text that `words` takes apart: one way to write each character, number and sign."""
        plain = _ESCAPE.sub("", text)
        if not plain.isascii():
            plain = unicodedata.normalize("NFKD", _RAISED.sub(" ", mark_narrow_spaces(plain)))
            plain = _UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFC", _ACCENT.sub("", plain)))
            plain = _INVISIBLE.sub("", plain.translate(_DASHES))
        if self.identifiers:
            plain = _EMPHASIS.sub(r"\2", plain)
        if self.list_marks:
            unmarked, marks = _LIST_MARK.subn("", plain)
            plain = unmarked if marks >= _LEAST_LIST_MARKS else plain
        if self.dates:
            plain = one_order_of_dates(plain)
        plain = _CURRENCY.sub("", _MINUS.sub("-", join_thousands(plain, spaced=self.spaced_thousands)))
        if not self.case_sensitive:
            plain = plain.casefold()
        if not self.identifiers:
            plain = _SPELLING.sub("", plain.replace("&", " and "))
        return _APOSTROPHE.sub("", plain) if self.joins_apostrophes else plain


def holds(text: str, reference: str) -> bool:
    """Returns what `Normalizer.names` does, for texts that are normalized already."""
    return bool(reference) and f" {reference} " in f" {text} "


def is_choice(words: list[str]) -> bool:
    """Returns whether the words of a reference are so common that only their spelling tells a choice from prose."""
    return bool(words) and _COMMON_CHOICES.issuperset(word.casefold() for word in words)


def chooses(text: str, choice: str) -> bool:
    """Returns whether a text names a choice as it is written, and not as a word of a sentence."""
    return bool(regex.search(_CHOICE.format(regex.escape(choice.strip())), text, regex.VERBOSE))


VALUES = Normalizer(spaced_thousands=True, list_marks=True)
"""Values that kveval made up and planted: long numbers, coined words, names, UUIDs."""

PROSE = Normalizer(joins_apostrophes=True, drops_articles=True, number_words=True)
"""The words of documents. It decides which questions are asked, so a change makes other samples."""

PROSE_ANSWERS = replace(PROSE, possessives=True, dates=True, whole_names=True)
"""Answers in the words of a document or of a user."""

CODE = Normalizer(case_sensitive=True, identifiers=True)
"""Names and values of source code."""
