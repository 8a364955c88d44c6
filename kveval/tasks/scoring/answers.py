"""Free-text answers compared with references.

Whether an answer gives a reference is decided by the words both consist of (`contains`), which damage to a number, to
a sign or to a name must not survive. `token_f1` is SQuAD's own measure (arXiv 1806.03822, evaluate-v2.0.py).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

import regex

_ARTICLES = frozenset(("a", "an", "the"))
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = {word: str(number) for number, word in enumerate(_NUMBERS)}

# 10,000 and, as India groups them, 1,00,000; 1.234 is a decimal and "1 234" may be two numbers.
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:([,'’_\u00a0\u2009\u202f])(?:\d\d\1)*\d{3})+(?!\d|\1\d)")
# 10² is not 102, nor is 2½ 21 and 2.
_RAISED = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹¼-¾⅐-⅞])")
_ACCENTS = regex.compile(r"(?<=[\s\p{Latin}\p{Greek}\p{Cyrillic}\p{Arabic}\p{Hebrew}])\p{M}+")
_MINUS = re.compile(r"\b(?:minus|negative)\s+(?=\.?\d)")
_SILENT = regex.compile(
    r"""
      [\p{Cf}\uFE00-\uFE0F\u20E3]          # invisible, or a key around a digit
    | (?<=\w)['’‘](?=\p{L})                # don't, O'Brien, George's
    | (?<=\p{L})\.(?=\p{L}(?![\p{L}\d]))   # U.S., Ph.D.
    | (?<=\p{L})\^(?=\d)                   # km^2 is km²
    | (?<=[-−–])[$€£¥](?=\.?\d)            # -$5
    | \\(?=[-+#.])                         # C\#, 3\.5 as markdown escapes them
    """,
    regex.VERBOSE,
)
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*")
_WORD = regex.compile(
    r"""
      (?:[-−–](?<![\w)\]%°−–-].)(?<!\d[ ].)(?=\.?\d))?                # -5; but no range and no hyphen
      (?:\.(?<![\w.].)(?=\d))?                                        # .5
      [^\W_]+(?:(?:(?<=\d)[.:]|(?<=\de)[-+])(?=\d)[^\W_]+)*           # 3.5, 10:30, v1.2, 1e-6
      (?:(?<=\p{L})(?:\+\+|[+#](?!\w)))?                              # C++, C#
    """,
    regex.VERBOSE,
)
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d{1,2})?")

# Choices are named by letters that prose is full of. "A is" and "A because" speak of the choice, "A city" does not.
_PROSE = _ARTICLES | {"i"}
_CHOICE = r"""
    (?: (?i:\b(?:option|answer|choice|letter))\s+[^\w\s]*{0}(?![\p{{Latin}}\p{{N}}])
    | (?<![\p{{Latin}}\p{{M}}\p{{N}}]){0}(?![\p{{Latin}}\p{{M}}\p{{N}}'’+])(?!\s+(?!(?:is|and|or|because)\b)\p{{Ll}}) )
"""


def words(text: str) -> list[str]:
    """The words of a text in lower case, without accents and punctuation; numbers in digits as their value reads.

    Punctuation parts words, but is silent in "don't", "U.S." and "10,000", and part of the word in "-5", "3.5",
    "10:30", "v1.2", "C++" and "C#". "&" is "and". 3.0 is 3 and 1e6 is 1000000; 007 is not 7.
    """
    plain = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    if not plain.isascii():
        plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", _RAISED.sub(" ", plain)))
        plain = _UNSPACED.sub(r" \g<0> ", unicodedata.normalize("NFC", plain))
    plain = _MINUS.sub("-", plain.casefold())
    return [_by_value(word) for word in _WORD.findall(_SILENT.sub("", plain.replace("&", " and ")))]


def normalized(text: str) -> str:
    """The `words` of a text without articles, unless there is nothing else, and number words up to twelve as digits."""
    every = [_DIGITS.get(word, word) for word in words(text)]
    return " ".join([word for word in every if word not in _ARTICLES] or every)


def contains(text: str, reference: str) -> bool:
    """Whether `reference` stands in `text` as whole words, both normalized.

    A reference that is but "A", "I" or "the" must stand there as it is written, and not as the word of a sentence.
    """
    wanted = normalized(reference)
    if wanted and _PROSE.issuperset(wanted.split()):
        return bool(regex.search(_CHOICE.format(regex.escape(reference.strip())), text, regex.VERBOSE))
    return holds(normalized(text), wanted)


def holds(text: str, reference: str) -> bool:
    """`contains` of texts that are normalized already."""
    return bool(reference) and f" {reference} " in f" {text} "


def token_f1(text: str, references: Iterable[str]) -> float:
    """Best F1, in [0, 1], of the words a text shares with one of the references, by SQuAD's published rule."""
    given = _squad_words(text)
    return max((_f1(given, _squad_words(reference)) for reference in references), default=0.0)


def _by_value(word: str) -> str:
    if word[0] in "−–":
        word = f"-{word[1:]}"
    if (word.isalnum() and "e" not in word) or not _NUMBER.fullmatch(word):
        return word
    plain = format(Decimal(word), "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _squad_words(text: str) -> list[str]:
    plain = text.lower().translate(_NO_PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _f1(given: list[str], wanted: list[str]) -> float:
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 2 * shared / (len(given) + len(wanted)) if shared else 0.0
