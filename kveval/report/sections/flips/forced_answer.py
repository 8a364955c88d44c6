"""How probable both sides find the right answer of a flipped sample, token by token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from kveval.report.endpoints import kind_label
from kveval.report.sections.flips.divergence import TokenTexts

MOST_TOKENS = 64


@dataclass(frozen=True, slots=True)
class ForcedToken:
    """One token of the forced text. A probability is None where that side was not forced to the same text."""

    token_id: int
    text: str | None
    baseline_p: float | None
    candidate_p: float | None


@dataclass(frozen=True, slots=True)
class ForcedAnswer:
    """The expected score of one sample on both sides, and the probabilities of the first right answer.

    Attributes:
        name: of the score, with its temperature and how it was read.
        baseline_score, candidate_score: None where that side has none; the reason is in `baseline_error` and
            `candidate_error`.
        text: what was forced, the lead included. None without the tokenizer.
        tokens: the first of them; `more_tokens` are left out.
        other_texts: how many other right or wrong answers were forced too.
    """

    name: str
    baseline_score: float | None
    candidate_score: float | None
    baseline_error: str | None
    candidate_error: str | None
    lead: str
    text: str | None
    tokens: tuple[ForcedToken, ...]
    more_tokens: int
    other_texts: int


def forced_answer(baseline: Mapping[str, Any], candidate: Mapping[str, Any], texts: TokenTexts) -> ForcedAnswer | None:
    """Returns what both records, as in `RunData.records`, say about the right answer. None if neither says anything."""
    ours, theirs = baseline["expected"], candidate["expected"]
    ours, theirs = (one if isinstance(one, Mapping) else None for one in (ours, theirs))
    found = ours or theirs
    if found is None:
        return None
    ids: list[int] = list(found["token_ids"][0]) if len(found["token_ids"]) else []
    left, right = (_probabilities(one, ids) for one in (ours, theirs))
    tokens = tuple(
        ForcedToken(int(token), texts.text(int(token)), before, after)
        for token, before, after in list(zip_longest(ids, left, right))[:MOST_TOKENS]
    )
    return ForcedAnswer(
        name=kind_label(found["unit"], found["temperature"], found.get("method")),
        baseline_score=ours["score"] if ours else None,
        candidate_score=theirs["score"] if theirs else None,
        baseline_error=_error(baseline),
        candidate_error=_error(candidate),
        lead=str(found["lead"]),
        text=texts.decoded([int(token) for token in ids]),
        tokens=tokens,
        more_tokens=len(ids) - len(tokens),
        other_texts=max(len(found["token_ids"]) - 1, 0),
    )


def _probabilities(expected: Mapping[str, Any] | None, ids: list[int]) -> list[float | None]:
    if expected is None or not len(expected["token_ids"]) or list(expected["token_ids"][0]) != ids:
        return []
    return [math.exp(min(float(logprob), 0.0)) for logprob in expected["logprobs"][0]]


def _error(record: Mapping[str, Any]) -> str | None:
    error = record["expected_error"]
    return f"{error['kind']}: {error['message']}" if isinstance(error, Mapping) else None
