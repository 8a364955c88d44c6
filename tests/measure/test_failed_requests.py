"""What becomes of a request that fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Nth, Planner, is_smoke, outcomes, records, run


async def test_a_failing_request_is_retried(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Nth(Oracle(plan), Reply(status=500), every=4))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "bf16") == {"correct": 6}
    assert Counter(record.attempts for record in records(tmp_path / "run", "bf16"))[2] == 2


async def test_what_fails_at_every_attempt_is_an_engine_error_and_the_run_goes_on(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of()
    oracle = Oracle(plan)
    broken = {sample.sample_id for sample in plan.samples[::3]}

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        if not is_smoke(body) and oracle.sample(prompt).sample_id in broken:
            return Reply(status=500, message="no such luck")
        return oracle(prompt, body)

    await run(plan, tmp_path / "run", ScriptedEngines(handler))

    for variant in ("bf16", "fp8"):
        failed = [record for record in records(tmp_path / "run", variant) if record.outcome == "engine_error"]
        assert {record.sample_id for record in failed} == broken
        assert all(record.error and record.error.message == "HTTP 500: no such luck" for record in failed)
        assert all(record.attempts == 2 for record in failed)
        assert outcomes(tmp_path / "run", variant) == {"correct": 4, "engine_error": 2}


async def test_a_bad_request_is_one_record_without_a_retry(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    too_long = Reply(status=400, message="This model's maximum context length is 10 tokens")
    engines = ScriptedEngines(Nth(Oracle(plan), too_long, at=2))

    await run(plan, tmp_path / "run", engines)

    assert engines.requests() == 6
    failed = [record for record in records(tmp_path / "run", "bf16") if record.outcome == "engine_error"]
    assert [record.error.kind for record in failed if record.error] == ["bad_request"]


async def test_bad_requests_alone_never_start_a_server_again(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Nth(Oracle(plan), Reply(status=400), every=1))
    await run(plan, tmp_path / "run", engines)
    assert engines.launches == ["bf16"]
    assert outcomes(tmp_path / "run", "bf16") == {"engine_error": 6}


@pytest.mark.parametrize(
    ("every", "most_share", "status"),
    [(1, 0.02, "stopped"), (2, 0.02, "stopped"), (2, 0.49, "stopped"), (2, 0.5, "complete"), (7, 0.0, "stopped")],
)
async def test_a_variant_with_too_few_answers_is_not_complete(
    plan_of: Planner, tmp_path: Path, every: int, most_share: float, status: str
) -> None:
    plan = plan_of(variants=["bf16"], judge={"max_unanswered_share": most_share})
    engines = ScriptedEngines(Nth(Oracle(plan), Reply(status=400, message="sampler assert"), every=every))

    manifest = await run(plan, tmp_path / "run", engines)

    variant = manifest.variants["bf16"]
    assert variant.status == status
    assert manifest.status == ("complete" if status == "complete" else "incomplete")
    if status == "stopped":
        lost = {1: 6, 2: 3, 7: 1}[every]
        assert str(variant.reason).startswith(f"{lost} of 6 questions have no answer")
        assert "sampler assert; use: --resume --retry-errors to ask them again" in str(variant.reason)


async def test_a_changed_prompt_is_not_scored(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    oracle = Oracle(plan)

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = oracle(prompt, body)
        reply.prompt_tokens = len(prompt) + 1
        return reply

    await run(plan, tmp_path / "run", ScriptedEngines(handler))

    answered = records(tmp_path / "run", "bf16")
    assert {record.error.kind for record in answered if record.error} == {"prompt_changed"}
    assert {record.score for record in answered} == {0.0}


@pytest.mark.parametrize("logprob", [float("nan"), float("inf"), None])
async def test_non_finite_logprobs_are_engine_errors(plan_of: Planner, tmp_path: Path, logprob: float | None) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Nth(Oracle(plan), Reply("1234", logprob=logprob), at=1))

    await run(plan, tmp_path / "run", engines)

    assert outcomes(tmp_path / "run", "bf16") == {"correct": 5, "engine_error": 1}
    failed = next(record for record in records(tmp_path / "run", "bf16") if record.error)
    assert failed.error
    assert failed.error.kind == "non_finite"
    assert failed.attempts == 1
