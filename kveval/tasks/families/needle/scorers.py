"""Scores answers that name planted values, by kveval's rule and by RULER's.

Every scorer returns two metrics in [0, 1]:

``score``
    decides. It reads what an answer names, not how it is worded; see `NORMALIZER`.
``ruler``
    RULER's ``string_match_all``, for comparison with published numbers. It reads what it is given: in a sweep, the
    output without its thinking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kveval.tasks.corpora.words import MADE_UP_WORD
from kveval.tasks.scoring.abstention import abstains
from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.text import VALUES, holds

NORMALIZER = VALUES


def values_named(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns the share of the asked values that the answer names, less one for every other planted value it names.

    Where one value is asked, an answer that names several planted values scores 0: listing everything is not finding.
    When the doc is marked absent, abstaining scores 1 and everything else 0.

    Args:
        doc: ``answers``, ``distractors`` and ``absent``.
    """
    answer = answer_of(results[0])
    if doc["absent"]:
        score = float(abstains(answer, doc["distractors"], NORMALIZER))
    else:
        text = NORMALIZER.normalize(answer)
        found, false = (
            sum(holds(text, NORMALIZER.normalize(value)) for value in doc[key]) for key in ("answers", "distractors")
        )
        score = max(found - false, 0) / len(doc["answers"])
    return {"score": score, "ruler": ruler_match_all(results[0], doc["answers"])}


def words_counted(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns the share of the asked words that the answer names, less one for every other made-up word it names."""
    named = set(NORMALIZER.words(answer_of(results[0])))
    found = sum(answer in named for answer in doc["answers"])
    false = sum(bool(MADE_UP_WORD.fullmatch(word)) for word in named.difference(doc["answers"]))
    score = max(found - false, 0) / len(doc["answers"])
    return {"score": score, "ruler": ruler_match_all(results[0], doc["answers"])}


def ruler_match_all(output: str, references: Sequence[str]) -> float:
    """Returns the share of references that are substrings of the output, upper and lower case alike.

    The rule is RULER's ``string_match_all`` (NVIDIA/RULER, scripts/eval/synthetic/constants.py).
    """
    return sum(reference.lower() in output.lower() for reference in references) / len(references)
