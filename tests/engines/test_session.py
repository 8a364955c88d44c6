"""One server from its launch to its end: what is established, what is refused, and that it is always stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines, always

from kveval.engines.session import Established, Session, open_session
from kveval.errors import EngineError
from kveval.measure.plan.plan import Plan
from kveval.measure.records import request_of
from kveval.run.facts import Facts, Finding
from kveval.run.manifest import SmokeResult

Planner = Callable[..., Plan]
BASELINE = Facts(storage="native", kv_capacity_tokens=1_000_000, attention_backend=None, engine_version="scripted")


def opened(plan: Plan, engines: ScriptedEngines, tmp_path: Path, told: list[str] | None = None) -> Any:
    said = [] if told is None else told
    return open_session(plan, plan.variants[1], tmp_path / "log", open_engine=engines, on_status=said.append)


async def establish(session: Session, plan: Plan, smoke: SmokeResult | None = None) -> Established:
    return await session.establish([sample.prompt for sample in plan.samples], BASELINE, smoke or SmokeResult())


async def test_a_server_is_started_established_and_stopped(plan_of: Planner, tmp_path: Path) -> None:
    plan, told = plan_of(), list[str]()
    engines = ScriptedEngines(Oracle(plan))
    async with opened(plan, engines, tmp_path, told) as session:
        assert not session.facts.is_established
        established = await establish(session, plan)
        assert engines.servers["fp8"].is_up
        assert session.ready_seconds > 0
    assert not engines.servers["fp8"].is_up
    assert (told[0], told[-1]) == ("starting the engine", "stopping the engine")
    assert session.facts is established.facts
    assert established.facts.kv_capacity_ratio == 2.0
    assert established.smoke.output is not None
    assert established.refusal([]) is None


async def test_a_server_is_stopped_whatever_happens(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    engines = ScriptedEngines(Oracle(plan))
    with pytest.raises(ZeroDivisionError):
        async with opened(plan, engines, tmp_path):
            raise ZeroDivisionError
    assert not engines.servers["fp8"].is_up
    engines.fail_to_start["fp8"] = (1, "fp8: out of luck")
    with pytest.raises(EngineError, match="out of luck"):
        async with opened(plan, engines, tmp_path):
            pytest.fail("it did not start")


async def test_the_baselines_perplexity_judges_the_candidates(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    async with opened(plan, ScriptedEngines(Oracle(plan)), tmp_path) as session:
        established = await establish(session, plan, SmokeResult(perplexity=1.5))
    assert "the baseline has 2" in str(established.refusal([]))


async def test_smoke_questions_that_fail_refuse_the_variant(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    async with opened(plan, ScriptedEngines(always(Reply(""))), tmp_path) as session:
        established = await establish(session, plan)
    assert "the answer is empty (smoke_failed; " in str(established.refusal([]))
    assert established.refusal(["smoke_failed"]) is None


def test_only_an_error_that_is_not_accepted_refuses() -> None:
    findings = [Finding.warning("a", "warned"), Finding.error("b", "first"), Finding.error("c", "second")]
    established = Established(Facts(), SmokeResult(), findings)
    assert established.refusal([]) == "first (b; to measure it anyway: --accept-finding b)"
    assert established.refusal(["b"]) == "second (c; to measure it anyway: --accept-finding c)"
    assert established.refusal(["b", "c"]) is None


async def test_a_client_takes_the_configured_requests_and_changes(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    engines = ScriptedEngines(always(Reply(status=500)))
    async with opened(plan, engines, tmp_path) as session:
        for changes, attempts in (({}, 2), ({"max_attempts": 1}, 1)):
            async with session.client(**changes) as client:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("kveval.engines.client.client._BACKOFF", lambda _: 0.0)
                    assert (await client.ask(request_of(plan.samples[0]))).attempts == attempts
