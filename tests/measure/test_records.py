from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kveval.engines.client.answer import EngineAnswer
from kveval.errors import ConfigError
from kveval.measure.plan.plan import Plan
from kveval.measure.records import record_of, request_of, sample_row
from kveval.run.records import unpack_logprobs


@pytest.fixture
def plan(plan_of: Callable[..., Plan]) -> Plan:
    return plan_of()


def answer(plan: Plan, **changes: Any) -> EngineAnswer:
    sample = plan.samples[0]
    given: dict[str, Any] = {
        "text": f"it is {sample.doc['answers'][0]}", "finish_reason": "stop", "prompt_tokens": len(sample.prompt),
        "cached_tokens": 16, "output_token_ids": [5, 6], "sent_at": 12.0, "total_ms": 40.0, "token_ms": [10.0, 30.0],
        "chunk_tokens": [1, 1], "top_ids": [[5, 9], [6]], "top_logprobs": [[-0.1, -3.0], [-0.2]], "attempts": 2,
    }  # fmt: skip
    return EngineAnswer(**given | changes)


def record(plan: Plan, **changes: Any) -> Any:
    sample = plan.samples[0]
    return record_of(sample, plan.tasks[sample.task], "fp8", answer(plan, **changes))


def test_what_is_asked_is_the_samples_own_prompt(plan: Plan) -> None:
    sample = plan.samples[0]
    request = request_of(sample)
    np.testing.assert_array_equal(request.token_ids, sample.prompt.token_ids())
    assert (request.max_output_tokens, request.stop) == (sample.max_output_tokens, sample.stop)
    assert request.cache_salt is None


def test_what_is_stored_of_a_sample(plan: Plan) -> None:
    sample = plan.samples[0]
    row = sample_row(sample, 2)
    assert row.prompt_sha256 == sample.prompt.sha256()
    assert row.first_token_ids == sample.prompt.token_ids()[:8].tolist()
    assert row.prompt_tokens == len(sample.prompt)
    assert row.doc["answers"] == sample.doc["answers"]
    assert row == type(row).model_validate_json(row.model_dump_json())


def test_a_right_answer(plan: Plan) -> None:
    kept = record(plan)
    assert (kept.outcome, kept.score, kept.metrics) == ("correct", 1.0, {"ruler": 1.0})
    assert (kept.ttft_ms, kept.itl_ms, kept.total_ms, kept.attempts) == (10.0, 20.0, 40.0, 2)
    assert (kept.prompt_tokens, kept.cached_tokens, kept.output_tokens) == (len(plan.samples[0].prompt), 16, 2)
    ids, logprobs = unpack_logprobs(kept.logprobs)
    assert ids.tolist() == [[5, 9], [6, -1]]
    assert logprobs[0].tolist() == pytest.approx([-0.1, -3.0])
    assert logprobs[1, 1] == -9999.0


def test_a_wrong_answer(plan: Plan) -> None:
    kept = record(plan, text="it is 12345678")
    assert (kept.outcome, kept.score) == ("wrong", 0.0)
    assert kept.output == "it is 12345678"


def test_a_failed_request_keeps_what_came(plan: Plan) -> None:
    kept = record(plan, error_kind="timeout", error_message="too slow", finish_reason=None)
    assert (kept.outcome, kept.score, kept.logprobs) == ("engine_error", 0.0, None)
    assert kept.error is not None
    assert (kept.error.kind, kept.error.message) == ("timeout", "too slow")


def test_another_prompt_than_the_one_sent_is_not_scored(plan: Plan) -> None:
    kept = record(plan, prompt_tokens=3)
    assert kept.outcome == "engine_error"
    assert kept.error is not None
    assert kept.error.message == f"the engine saw 3 prompt tokens, {len(plan.samples[0].prompt)} were sent"


def test_an_engine_that_does_not_count_prompt_tokens_is_believed(plan: Plan) -> None:
    assert record(plan, prompt_tokens=None).outcome == "correct"


def test_no_logprobs_are_none(plan: Plan) -> None:
    assert record(plan, top_ids=[], top_logprobs=[]).logprobs is None


def test_a_sample_keeps_its_identity_in_its_record(plan: Plan) -> None:
    sample = plan.samples[0]
    kept = record(plan)
    same = ("sample_id", "haystack_id", "task", "family", "context_length", "depth_percent")
    assert {key: getattr(kept, key) for key in same} == {key: getattr(sample, key) for key in same}
    other = dataclasses.replace(sample, max_output_tokens=1)
    assert sample_row(other, 1) != sample_row(sample, 1)


def test_an_answer_its_scorer_fails_on_is_kept(plan: Plan) -> None:
    def fails(*_: object) -> dict[str, float]:
        raise ConfigError("task file mine.yaml: process_results fails: KeyError: 'x'")

    sample = plan.samples[0]
    task = dataclasses.replace(plan.tasks[sample.task], score=fails)
    kept = record_of(sample, task, "fp8", answer(plan, text="it is so"))
    assert (kept.outcome, kept.score, kept.metrics, kept.output) == ("invalid_format", 0.0, {"valid": 0.0}, "it is so")
    assert kept.logprobs is not None
    assert kept.error is not None
    assert (kept.error.kind, kept.error.message) == (
        "scorer_failed", "task file mine.yaml: process_results fails: KeyError: 'x'",
    )  # fmt: skip


def test_the_steps_of_a_chain_are_kept_with_where_they_end(plan: Plan) -> None:
    sample = dataclasses.replace(plan.samples[0], doc={**plan.samples[0].doc, "answers": ["Step 1: 7", "Step 2: 9"]})
    text = "<think>Step 1: 1</think>Step 1: 7\nStep 2: 8\n"
    kept = record_of(
        sample, plan.tasks[sample.task], "fp8", answer(plan, text=text, output_token_ids=list(range(len(text))))
    )
    assert kept.steps == [True, False]
    assert kept.step_tokens == [text.index("7") + 1, text.index("8") + 1]
    assert record(plan).steps == record(plan, error_kind="http", error_message="500").steps == []
