"""Whether an output gives the answer. Pure checks, and the metrics lm-eval's ``process_results`` asks for.

Two metrics, both in [0, 1], higher is better:

``score``
    decides. It reads what an answer names, not how it is worded: case, punctuation, markdown, thousands separators
    and thinking aloud make no difference, and ``1234567`` is not named by ``91234567``.
``ruler``
    RULER's ``string_match_all``: the share of references that are case-insensitive substrings of the raw output.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kveval.tasks.scoring.abstention import says_nothing

_TAG = r"(?:think(?:ing)?|thought|reasoning)"
_THINKING = re.compile(rf"^.*</{_TAG}>|<{_TAG}>.*$", re.DOTALL | re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:([,.'_ \u00a0\u2009\u202f’])\d{3})(?:\1\d{3})*(?!\d|\1\d)")
_LATEX_COMMA = re.compile(r"\{,\}|\\,")
_NO_DECIMALS = re.compile(r"(?<=\d)\.0+(?![\w.])")
# "3. 4811391" and "3.4811391" number a line.
_ENUMERATOR = re.compile(r"^\W*\d{1,3}[.)](?=\s*\d{5})", re.MULTILINE)
# A number with its sign and its decimals, then whatever letters and digits are written together: 4811391 is named
# neither by 4811391.5 nor by -4811391 nor by 4811391a. Other scripts stand beside numbers without a space.
_WORDS = re.compile(r"(?:(?<=[^\S\n])[-−](?=\d))?\d+(?:\.\d+)*(?![0-9A-Za-z])|[0-9A-Za-z]+|[^\W\d_]+")
_LONG_NUMBER = re.compile(r"\d{5,}")


def answer_of(text: str) -> str:
    """The output without its thinking.

    An unclosed ``<think>`` is all thinking. Templates may open the block themselves, so whatever comes before the last
    ``</think>`` is thinking too.
    """
    return _THINKING.sub("", text).strip()


def words_of(text: str) -> list[str]:
    """Words and numbers of a text: case-folded, without punctuation and markup, thousands joined."""
    plain = _LATEX_COMMA.sub(",", _ENUMERATOR.sub("", unicodedata.normalize("NFKC", text)))
    plain = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), plain)
    return _WORDS.findall(_NO_DECIMALS.sub("", plain).casefold())


def names(words: Sequence[str], reference: str) -> bool:
    """Whether all words of `reference` stand in `words` one after the other."""
    wanted = words_of(reference)
    size = len(wanted)
    return bool(wanted) and any(list(words[i : i + size]) == wanted for i in range(len(words) - size + 1))


def abstains(answer: str, values: Iterable[str] = ()) -> bool:
    """Whether an answer says that the text does not say, and names no value all the same.

    A value is one of `values` or any number of five or more digits: "not stated in 1999, but it is 1234567" is an
    answer, "not stated in 1999" is none.
    """
    words = words_of(answer)
    if any(_LONG_NUMBER.search(word) for word in words) or any(names(words, value) for value in values):
        return False
    return says_nothing(answer)


def values_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Share of the asked values that the answer names; every planted value named beside them cancels one.

    So where one value is asked, an answer that names several planted values scores 0: listing everything is not
    finding. When the doc is marked absent, abstaining scores 1 and all else 0.

    Args:
        doc: ``answers``, ``distractors`` and ``absent``.
        results: one output text.
    """
    text = results[0]
    if doc["absent"]:
        score = float(abstains(answer_of(text), doc["distractors"]))
    else:
        words = words_of(answer_of(text))
        found = sum(names(words, answer) for answer in doc["answers"])
        false = sum(names(words, value) for value in doc["distractors"])
        score = max(found - false, 0) / len(doc["answers"])
    return {"score": score, "ruler": ruler_match_all(text, doc["answers"])}


def ruler_match_all(text: str, answers: Sequence[str]) -> float:
    """RULER's rule (NVIDIA/RULER, scripts/eval/synthetic/constants.py, ``string_match_all``)."""
    return sum(answer.lower() in text.lower() for answer in answers) / len(answers)
