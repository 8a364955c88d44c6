"""Scores answers to questions about documents.

All metrics are in [0, 1], higher is better:

``score``
    decides. The answer names one of the references within its first 30 words, and commits itself: it names no answer to
    another question and is not a list of guesses. Where the documents do not answer, abstaining scores 1 and everything
    else 0. A cited answer must also name the right documents and no other.
``f1``
    SQuAD's token F1 of the whole output with the best reference.
``answer``, ``citation_recall``, ``citation_precision``
    of cited answers: the answer alone, the share of the right documents that it names, and the share of the documents
    it names that are right.
``valid``
    of cited answers: 1 when it names a document.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kveval.tasks.corpora.documents import DOCUMENT_ID
from kveval.tasks.scoring.abstention import abstains, disowns
from kveval.tasks.scoring.reasoning import answer_of
from kveval.tasks.scoring.text import PROSE_ANSWERS
from kveval.tasks.scoring.wording.commitment import gives

NORMALIZER = PROSE_ANSWERS
# "one of the rules" names no number, so a guess is looked for in digits only.
_DIGITS_ONLY = replace(NORMALIZER, number_words=False)

_MOST_WORDS = 30
_MOST_PARTS = 5
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PARTING = re.compile(r"[,;|\n]\s*(?=.*\w)")


def answered(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns ``score`` and ``f1`` of a short answer.

    Args:
        doc: ``question``, ``answers`` (any of them is right), ``distractors`` and ``absent``.
    """
    answer = answer_of(results[0])
    return {"score": _right(answer, doc), "f1": _f1(answer, doc)}


def cited(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Returns all metrics of a cited answer.

    Args:
        doc: as in `answered`, and ``document_ids``: the documents to name, none where the answer is absent.
    """
    text = answer_of(results[0])
    named = {(letter + digits).upper() for letter, digits in DOCUMENT_ID.findall(text)}
    answer = DOCUMENT_ID.sub("", text)
    right = _right(answer, doc)
    if doc["absent"]:
        metrics = dict.fromkeys(("score", "f1", "answer", "citation_recall", "citation_precision"), right)
        return metrics | {"valid": float(bool(right or named))}
    gold = set(doc["document_ids"])
    found = len(gold & named)
    return {
        "score": right * (named == gold),
        "f1": _f1(answer, doc),
        "answer": right,
        "citation_recall": found / len(gold),
        "citation_precision": found / len(named) if named else 0.0,
        "valid": float(bool(named)),
    }


def token_f1(text: str, references: Iterable[str]) -> float:
    """Returns the best F1, in [0, 1], of the words a text shares with one of the references.

    The words are those of SQuAD's published rule (arXiv 1806.03822, evaluate-v2.0.py), not of `NORMALIZER`, so that
    numbers compare with published ones.
    """
    given = _squad_words(text)
    return max((_shared_f1(given, _squad_words(reference)) for reference in references), default=0.0)


def _squad_words(text: str) -> list[str]:
    plain = text.lower().translate(_NO_PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _shared_f1(given: list[str], wanted: list[str]) -> float:
    shared = sum((Counter(given) & Counter(wanted)).values())
    return 2 * shared / (len(given) + len(wanted)) if shared else 0.0


def _f1(answer: str, doc: Mapping[str, Any]) -> float:
    return _right(answer, doc) if doc["absent"] else token_f1(answer, doc["answers"])


def _right(answer: str, doc: Mapping[str, Any]) -> float:
    if doc["absent"]:
        return float(abstains(answer, doc["distractors"], NORMALIZER, doc["question"]))
    head = "".join(re.findall(r"\S+\s*", answer)[:_MOST_WORDS])
    if disowns(head, doc["question"]) or any(NORMALIZER.names(head, other) for other in doc["distractors"]):
        return 0.0
    known = " ".join((doc["question"], *doc["answers"]))
    named = [reference for reference in doc["answers"] if gives(head, reference, NORMALIZER, known)]
    return float(bool(named) and not _guesses(head, max(named, key=len), doc))


def _guesses(head: str, reference: str, doc: Mapping[str, Any]) -> bool:
    """Returns whether an answer is undecided: a long list, or a second number in the place of the first.

    A bare number has no second one of its form beside it: 1994 and 1996. In "Apollo 11" it belongs to its neighbours:
    a date beside it is no second answer, "Apollo 12" is.
    """
    if len(_PARTING.split(head)) - len(_PARTING.split(reference)) >= _MOST_PARTS:
        return True
    known = {word for text in (doc["question"], *doc["answers"]) for word in NORMALIZER.words(text)}
    wanted, given = NORMALIZER.words(reference), _DIGITS_ONLY.words(head)
    for at, number in enumerate(wanted):
        if (form := _form(number)) is None:
            continue
        others = [i for i, word in enumerate(given) if _form(word) == form and word not in known]
        if len(wanted) == 1 and others:
            return True
        before, after = wanted[at - 1 : at], wanted[at + 1 : at + 2]
        if any((before and given[i - 1 : i] == before) or (after and given[i + 1 : i + 2] == after) for i in others):
            return True
    return False


def _form(number: str) -> str | None:
    """Returns the form of a number, the same for 1994 and 1996, and for 10th and 11th; None for any other word."""
    digits = re.fullmatch(r"(-?\d[\d.:]*)(st|nd|rd|th)?", number)
    return re.sub(r"\d", "0", digits[1]) + ("th" if digits[2] else "") if digits else None
