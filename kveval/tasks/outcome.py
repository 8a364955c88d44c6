"""Says in one word what became of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kveval.run.records import Outcome
from kveval.tasks.scoring.abstention import abstains
from kveval.tasks.scoring.reasoning import answer_of, ends_thinking
from kveval.tasks.scoring.text import VALUES
from kveval.tasks.scoring.wording.refusal import refuses


def classify(
    text: str | None,
    finish_reason: str | None,
    metrics: Mapping[str, float],
    doc: Mapping[str, Any],
    *,
    thinking: bool = False,
) -> Outcome:
    """Returns the outcome of an output.

    ``correct``
        the score is 1. Where the text does not hold the answer, the output says so.
    ``wrong``
        the output gives an answer, but not the right one or not all of it.
    ``abstained``
        the output says that the text does not hold the answer, but the text does. Where calls are asked for, the output
        makes none (``metrics["abstained"]``).
    ``refused``
        the output says that the model will not help, and gives no answer.
    ``empty``
        the output has no words beside its thinking.
    ``truncated``
        the output budget ran out before the output gave an answer.
    ``truncated_thinking``
        the output budget ran out while the model was thinking.
    ``invalid_format``
        the output does not have the format asked for: ``metrics["valid"]`` is 0.
    ``unscored``
        the output gives an answer, and the sample has no right one: ``doc["scored"]`` is False.
    ``engine_error``
        the request failed, so there is no output.

    Args:
        text: the output, with its thinking or without; None if the request failed.
        thinking: whether the output ended inside its thinking, where `text` is without it.
        finish_reason: as the engine gives it (``stop``, ``length``, ``tool_calls``); None if the request failed.
        metrics: what the task's `score` returns.
    """
    if text is None or finish_reason is None:
        return "engine_error"
    if metrics.get("score", 0.0) >= 1.0:
        return "correct"
    answer = answer_of(text)
    out_of_budget = finish_reason == "length"
    if not VALUES.words(answer):
        if out_of_budget:
            return "truncated_thinking" if thinking or ends_thinking(text) else "truncated"
        return "empty"
    if not doc.get("scored", True):
        return "unscored"
    if refuses(answer):
        return "refused"
    planted = [*doc.get("answers", ()), *doc.get("distractors", ())]
    # Where the answer is absent, abstaining scores 1: a score below is a claim, however the answer begins.
    if not doc.get("absent", False) and (metrics["abstained"] if "abstained" in metrics else abstains(answer, planted)):
        return "truncated" if out_of_budget and "abstained" in metrics else "abstained"
    if out_of_budget and not any(VALUES.names(answer, value) for value in planted):
        return "truncated"
    if metrics.get("valid", 1.0) < 1.0:
        return "invalid_format"
    return "wrong"
