"""What became of a sample, in one word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kveval.run.records import Outcome
from kveval.tasks.scoring.abstention import abstains
from kveval.tasks.scoring.text import VALUES
from kveval.tasks.scoring.thinking import answer_of


def classify(
    text: str | None, finish_reason: str | None, metrics: Mapping[str, float], doc: Mapping[str, Any]
) -> Outcome:
    """The outcome of an output; every sample has exactly one.

    ``correct``
        the score is 1. Where the answer is absent, that means the output abstained.
    ``wrong``
        an answer, but not the right or the whole one.
    ``abstained``
        the output says that the text does not say, and the text does say; where calls are asked for, it makes none
        (``metrics["abstained"]``).
    ``empty``
        nothing was answered, thinking aside.
    ``truncated``
        the output budget ran out before an answer was given.
    ``invalid_format``
        the output cannot be read as the asked format: ``metrics["valid"]`` is 0.
    ``unscored``
        an answer to a sample that has no right one: ``doc["scored"]`` is False.
    ``engine_error``
        there is no output: the request failed.

    Args:
        text: the raw output; None when the request failed.
        finish_reason: the engine's: ``stop``, ``length``, ``tool_calls``...; None when the request failed.
        metrics: what the task's `score` returned.
        doc: the sample's doc.
    """
    if text is None or finish_reason is None:
        return "engine_error"
    if metrics.get("score", 0.0) >= 1.0:
        return "correct"
    answer = answer_of(text)
    out_of_budget = finish_reason == "length"
    if not VALUES.words(answer):
        return "truncated" if out_of_budget else "empty"
    if not doc.get("scored", True):
        return "unscored"
    planted = [*doc.get("answers", ()), *doc.get("distractors", ())]
    if metrics["abstained"] if "abstained" in metrics else abstains(answer, planted):
        return "truncated" if out_of_budget and "abstained" in metrics else "abstained"
    if out_of_budget and not any(VALUES.names(answer, value) for value in planted):
        return "truncated"
    if metrics.get("valid", 1.0) < 1.0:
        return "invalid_format"
    return "wrong"
