"""Scores answers that name planted values, by kveval's rule and by RULER's.

Every scorer returns two metrics in [0, 1]:

``score``
    decides. It reads what an answer names, not how it is worded; see `NORMALIZER`.
``ruler``
    RULER's ``string_match_all``, for comparison with published numbers. It reads what it is given: in a sweep, the
    output without its thinking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.corpora.words import MADE_UP_WORD
from kveval.tasks.scoring.abstention import abstains, disowns
from kveval.tasks.scoring.numbers import LONG_NUMBER_DIGITS
from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.text import VALUES, holds
from kveval.tasks.scoring.wording.commitment import gives
from kveval.tasks.scoring.wording.denial import without_denied

NORMALIZER = VALUES

_UUID = re.compile(r"(?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])")
_VARIABLE = re.compile(r"(?<![\w-])[A-Z]{5}(?![\w-])")
_LONG_NUMBER = re.compile(rf"-?\d{{{LONG_NUMBER_DIGITS},}}")


def values_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns the share of the asked values that the answer gives, less one for every other value it names.

    Other values are the planted ones, and those of the same form that the text does not have: a second long number, a
    second UUID. Where one value is asked, an answer that names several scores 0: listing everything is not finding.
    An answer that denies a value ("not 1234567"), or says beside it that there is none, does not give it.
    When the doc is marked absent, abstaining scores 1 and everything else 0.

    Args:
        doc: ``answers``, ``distractors``, ``absent`` and, if known, ``question``.
    """
    answer, question = answer_of(results[0]), str(doc.get("question", ""))
    if doc["absent"]:
        score = float(abstains(answer, doc["distractors"], NORMALIZER, question))
    elif disowns(answer, question):
        score = 0.0
    else:
        found = sum(_gives(answer, value, doc, question) for value in doc["answers"])
        text = NORMALIZER.normalize(answer)
        false = sum(holds(text, NORMALIZER.normalize(value)) for value in doc["distractors"])
        false += len(_invented(answer, doc, question))
        score = max(found - false, 0) / len(doc["answers"])
    return {"score": score, "ruler": ruler_match_all(results[0], doc["answers"])}


def _gives(answer: str, value: str, doc: Mapping[str, Any], question: str) -> bool:
    if _UUID.fullmatch(value) and value.lower() not in (found.lower() for found in _UUID.findall(answer)):
        return False
    if value.isalpha() and re.search(rf"\w-{value}\b|\b{value}-\w", answer, re.IGNORECASE):
        return False
    if len(doc["answers"]) > 1:  # a list is asked for
        return NORMALIZER.names(without_denied(answer, value), value)
    return gives(answer, value, NORMALIZER, question)


def _invented(answer: str, doc: Mapping[str, Any], question: str) -> set[str]:
    """Returns values of the asked form that were neither planted nor named by the question."""
    known = {word for text in (question, *doc["answers"], *doc["distractors"]) for word in NORMALIZER.words(text)}
    if all(value.isdecimal() and len(value) >= LONG_NUMBER_DIGITS for value in doc["answers"]):
        return {word for word in NORMALIZER.words(answer) if _LONG_NUMBER.fullmatch(word) and word not in known}
    planted = {value.lower() for value in (*doc["answers"], *doc["distractors"])}
    if all(_UUID.fullmatch(value) for value in doc["answers"]):
        asked = {found.lower() for found in _UUID.findall(question)}
        return {found.lower() for found in _UUID.findall(answer)} - planted - asked
    if all(_VARIABLE.fullmatch(value) for value in doc["answers"]) and answer != answer.upper():
        return {found for found in _VARIABLE.findall(answer) if found.lower() not in planted | known}
    return set()


def words_counted(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns the share of the asked words that the answer gives, less one for every other made-up word it names."""
    answer = answer_of(results[0])
    named, claimed = (set(NORMALIZER.words(text)) for text in (answer, without_denied(answer)))
    found = sum(word in claimed for word in doc["answers"])
    false = sum(bool(MADE_UP_WORD.fullmatch(word)) for word in named.difference(doc["answers"]))
    score = max(found - false, 0) / len(doc["answers"])
    return {"score": score, "ruler": ruler_match_all(results[0], doc["answers"])}


def ruler_match_all(output: str, references: Sequence[str]) -> float:
    """Returns the share of references that are substrings of the output, upper and lower case alike.

    The rule is RULER's ``string_match_all`` (NVIDIA/RULER, scripts/eval/synthetic/constants.py).
    """
    return sum(reference.lower() in output.lower() for reference in references) / len(references)
