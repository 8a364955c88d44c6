"""Turns a sample into a request, and its answer into a scored record."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.request import EngineRequest
from kveval.errors import ConfigError
from kveval.run.records import Outcome, Record, RecordError, SampleRow, pack_logprobs, too_few_answers
from kveval.tasks.outcome import classify
from kveval.tasks.sample import Sample
from kveval.tasks.scoring.model_reasoning import ANY_MODEL, ModelReasoning
from kveval.tasks.scoring.reasoning import GOING_ON, answer_of
from kveval.tasks.scoring.wording.degeneration import degeneration
from kveval.tasks.scoring.wording.steps import Step, has_steps, steps_in
from kveval.tasks.task import Task

_FIRST_TOKENS = 8
# What the engine reports for a probability of zero.
_NO_LOGPROB = -9999.0


def request_of(sample: Sample) -> EngineRequest:
    return EngineRequest(sample.prompt.token_ids(), sample.max_output_tokens, sample.stop, chat=sample.chat)


def sample_row(sample: Sample, first_look: int = 1) -> SampleRow:
    return SampleRow(
        sample_id=sample.sample_id,
        haystack_id=sample.haystack_id,
        task=sample.task,
        family=sample.family,
        context_length=sample.context_length,
        prompt_tokens=len(sample.prompt),
        prompt_sha256=sample.prompt.sha256(),
        first_token_ids=sample.prompt.first(_FIRST_TOKENS),
        depth_percent=sample.depth_percent,
        max_output_tokens=sample.max_output_tokens,
        stop=list(sample.stop),
        doc=dict(sample.doc),
        first_look=first_look,
    )


def record_of(
    sample: Sample, task: Task, variant: str, answer: EngineAnswer, reasoning: ModelReasoning = ANY_MODEL
) -> Record:
    outcome, metrics, error = _judge_answer(sample, task, answer, reasoning)
    score = metrics.pop("score", 0.0)
    steps = _steps(sample, answer, reasoning) if outcome != "engine_error" else []
    return Record(
        sample_id=sample.sample_id,
        haystack_id=sample.haystack_id,
        variant=variant,
        task=sample.task,
        family=sample.family,
        context_length=sample.context_length,
        depth_percent=sample.depth_percent,
        outcome=outcome,
        score=score,
        metrics=metrics,
        steps=[step.is_right for step in steps],
        step_tokens=[step.end for step in steps],
        degenerate=None if outcome == "engine_error" else _degenerate(sample, answer, score),
        output=answer.text,
        finish_reason=answer.finish_reason,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        output_tokens=answer.output_tokens,
        output_token_ids=answer.output_token_ids,
        sent_at=answer.sent_at,
        ttft_ms=answer.ttft_ms,
        itl_ms=answer.itl_ms,
        total_ms=answer.total_ms,
        token_ms=answer.token_ms,
        chunk_tokens=answer.chunk_tokens,
        logprobs=None if outcome == "engine_error" else _packed(answer),
        attempts=answer.attempts,
        error=error,
    )


def unanswered(samples: Iterable[Sample], records: Iterable[Record], *, retry_errors: bool) -> list[Sample]:
    """Returns the samples without a record.

    With `retry_errors`, a record of an ``engine_error`` or of a failed attempt to force the answer counts as none.
    """
    answered = {
        one.sample_id
        for one in records
        if not (retry_errors and (one.outcome == "engine_error" or one.expected_error is not None))
    }
    return [sample for sample in samples if sample.sample_id not in answered]


def why_too_few_answers(asked: int, records: Sequence[Record], most_share: float) -> str | None:
    """Returns why the answers to `asked` samples cannot be judged. None if at most `most_share` of them are missing."""
    errors = [record for record in records if record.outcome == "engine_error"]
    first = next((record.error.message for record in errors if record.error), None)
    problem = too_few_answers(asked - len(records) + len(errors), asked, most_share, first)
    return f"{problem}; use: --resume --retry-errors to ask them again" if problem else None


def _judge_answer(
    sample: Sample, task: Task, answer: EngineAnswer, reasoning: ModelReasoning
) -> tuple[Outcome, dict[str, float], RecordError | None]:
    if answer.error_kind is not None:
        return "engine_error", {}, RecordError(kind=answer.error_kind, message=answer.error_message)
    sent = len(sample.prompt) if answer.sent_tokens is None else answer.sent_tokens
    if answer.prompt_tokens is not None and answer.prompt_tokens != sent:
        message = f"the engine saw {answer.prompt_tokens} prompt tokens, {sent} were sent"
        return "engine_error", {}, RecordError(kind="prompt_changed", message=message)
    if answer.prompt_token_ids is not None and not np.array_equal(answer.prompt_token_ids, sample.prompt.token_ids()):
        message = "the engine made other prompt tokens of the messages than the chat template does here"
        return "engine_error", {}, RecordError(kind="prompt_changed", message=message)
    answered = reasoning.answer_in(sample, answer.text, answer.output_token_ids, answer.finish_reason)
    try:
        metrics = task.score(sample.doc, answered)
    except ConfigError as error:  # the scorer met an output its author did not think of; the output is kept
        logging.getLogger(__name__).warning("%s cannot score an output: %s", task.name, error)
        return "invalid_format", {"valid": 0.0}, RecordError(kind="scorer_failed", message=str(error))
    going_on = reasoning.answer_in(sample, f"{answer.text}{GOING_ON}", (), answer.finish_reason)
    thinking = GOING_ON.strip() not in going_on
    return classify(answered, answer.finish_reason, metrics, sample.doc, thinking=thinking), dict(metrics), None


def _steps(sample: Sample, answer: EngineAnswer, reasoning: ModelReasoning) -> list[Step]:
    """Returns the steps of a chain, each with the output tokens up to its end in place of characters."""
    if not has_steps(sample.doc):
        return []
    answered = answer_of(reasoning.answer_in(sample, answer.text, answer.output_token_ids, answer.finish_reason))
    start = max(answer.text.rfind(answered), 0)
    share = answer.output_tokens / max(len(answer.text), 1)
    return [
        step if step.end is None else replace(step, end=round((start + step.end) * share))
        for step in steps_in(sample.doc["answers"], answered)
    ]


def _degenerate(sample: Sample, answer: EngineAnswer, score: float) -> Literal["none", "loop", "scripts", "unrelated"]:
    # An answer that earns something is about the question. A request made far back shares no word with its question.
    about = "" if score or "catalogue" in sample.doc else str(sample.doc.get("question", ""))
    return degeneration(answer.text, about) or "none"


def _packed(answer: EngineAnswer) -> str | None:
    if not answer.top_ids:
        return None
    width = max(len(row) for row in answer.top_ids)
    ids = np.full((len(answer.top_ids), width), -1, dtype=np.int32)
    values = np.full((len(answer.top_ids), width), _NO_LOGPROB, dtype=np.float32)
    for position, (row_ids, row_values) in enumerate(zip(answer.top_ids, answer.top_logprobs, strict=True)):
        ids[position, : len(row_ids)] = row_ids
        values[position, : len(row_values)] = row_values
    return pack_logprobs(ids, values)
