"""What a sweep does when servers fail, die, hang or do not start."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Nth, Planner, is_smoke, outcomes, records, run

from kveval.errors import EngineError
from kveval.run.directory import RunDirectory


async def test_a_server_that_fails_every_request_is_restarted_once_then_stopped(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(samples=12, requests={"max_attempts": 1, "max_in_flight": 1})
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = Nth(oracle, Reply(status=500), every=1)

    manifest = await run(plan, tmp_path / "run", engines)

    assert engines.launches == ["bf16", "fp8", "fp8"]
    assert manifest.variants["bf16"].status == "complete"
    assert manifest.variants["fp8"].status == "stopped"
    assert manifest.variants["fp8"].launches == 2
    assert "5 requests in a row failed" in str(manifest.variants["fp8"].reason)
    assert outcomes(tmp_path / "run", "fp8") == {"engine_error": 10}


async def test_a_server_that_dies_midway_costs_no_answer(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(samples=12)
    oracle = Oracle(plan)
    engines = ScriptedEngines(Nth(oracle, Reply("dying now", die=True), at=5))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "complete"
    assert engines.launches == ["bf16", "bf16", "fp8"]
    assert manifest.variants["bf16"].launches == 2
    [restarted] = [finding for finding in manifest.variants["bf16"].findings if finding.code == "engine_restarted"]
    assert restarted.level == "warning"
    assert "the engine stopped" in restarted.message
    assert "engine_restarted" not in {finding.code for finding in manifest.variants["fp8"].findings}
    assert outcomes(tmp_path / "run", "bf16") == {"correct": 12}
    lines = (tmp_path / "run" / "records" / "bf16.jsonl").read_text().splitlines()
    assert len(lines) == 12
    asked = Counter(oracle.ids(engines.servers["bf16"]))
    assert len(asked) == 12
    assert max(asked.values()) <= 2


async def test_a_request_that_kills_every_server_costs_its_own_answer_only(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(samples=12, judge={"max_unanswered_share": 0.1})
    oracle = Oracle(plan)
    deadly = plan.samples[4].sample_id

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = oracle(prompt, body)
        reply.die = not is_smoke(body) and oracle.sample(prompt).sample_id == deadly
        reply.delay_s = 0.05
        return reply

    engines = ScriptedEngines(oracle)
    engines.handlers["bf16"] = handler
    out = tmp_path / "run"

    manifest = await run(plan, out, engines)

    assert manifest.variants["bf16"].status == "stopped"
    assert manifest.variants["fp8"].status == "complete"
    failed = [record for record in records(out, "bf16") if record.outcome == "engine_error"]
    assert [record.sample_id for record in failed] == [deadly]

    manifest = await run(plan, out, engines, resume=True)

    assert manifest.status == "complete"
    assert outcomes(out, "bf16") == {"correct": 11, "engine_error": 1}


async def test_a_server_that_hangs_is_restarted_once_then_stopped(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(requests={"timeout_s": 0.3, "max_attempts": 1})
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = Nth(oracle, Reply(hang=True), every=3)

    manifest = await run(plan, tmp_path / "run", engines)

    assert engines.launches == ["bf16", "fp8", "fp8"]
    assert manifest.variants["fp8"].status == "stopped"
    assert "no whole answer within 0.3 s" in str(manifest.variants["fp8"].reason)
    assert manifest.variants["bf16"].status == "complete"
    kinds = Counter(record.error.kind for record in records(tmp_path / "run", "fp8") if record.error)
    assert kinds == {"timeout": 1}


async def test_a_server_that_does_not_start_again_leaves_the_variant_stopped(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["bf16"] = Nth(oracle, Reply("dying now", die=True), at=3)
    engines.fail_to_start["bf16"] = (2, "bf16: out of memory")

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.variants["bf16"].status == "stopped"
    assert "started once more: bf16: out of memory" in str(manifest.variants["bf16"].reason)
    assert manifest.variants["fp8"].status == "complete"
    assert outcomes(tmp_path / "run", "bf16")["correct"] > 0


async def test_a_candidate_that_does_not_start_fails_alone(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", "fp8", "int8"])
    engines = ScriptedEngines(Oracle(plan))
    engines.fail_to_start["fp8"] = (1, "fp8: the engine stopped (exit code 1)")

    manifest = await run(plan, tmp_path / "run", engines)

    statuses = {name: variant.status for name, variant in manifest.variants.items()}
    assert statuses == {"bf16": "complete", "fp8": "failed", "int8": "complete"}
    assert manifest.variants["fp8"].reason == "fp8: the engine stopped (exit code 1)"
    assert manifest.status == "incomplete"


async def test_a_baseline_that_does_not_start_ends_the_run(plan_of: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.fail_to_start["bf16"] = (1, "bf16: the engine stopped (exit code 1)")

    with pytest.raises(EngineError, match="exit code 1") as caught:
        await run(plan_of(), tmp_path / "run", engines)

    assert caught.value.exit_code == 3
    assert caught.value.log_tail == "last line of the log"
    manifest = RunDirectory(tmp_path / "run").read_manifest()
    assert (manifest.status, manifest.variants["bf16"].status) == ("incomplete", "failed")
    assert manifest.variants["fp8"].status == "planned"
