from __future__ import annotations

from pathlib import Path

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Nth, Planner, run

from kveval.measure.plan.plan import Plan
from kveval.measure.reuse.taken import Taken, answers_to_take
from kveval.run.directory import RunDirectory


@pytest.fixture
def plan(plan_of: Planner) -> Plan:
    return plan_of(variants=["bf16"], cold_check=2)


def taken(plan: Plan, out: Path) -> Taken:
    return answers_to_take(plan, RunDirectory(out), "bf16", plan.samples)


async def test_all_answers_can_be_taken(plan: Plan, tmp_path: Path) -> None:
    await run(plan, tmp_path, ScriptedEngines(Oracle(plan)))
    found = taken(plan, tmp_path)
    assert found.refusal is None
    assert set(found.records) == {sample.sample_id for sample in plan.samples}
    assert set(found.cold) == {sample.sample_id for sample in plan.cold_samples}


async def test_what_failed_or_is_missing_is_left_out(plan: Plan, plan_of: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(Nth(Oracle(plan), Reply(status=400), at=1))
    await run(plan, tmp_path, engines)
    found = taken(plan, tmp_path)
    assert found.refusal is None
    assert len(found.records) == 5
    assert len(taken(plan_of(variants=["bf16"], samples=6, seed=4), tmp_path).records) == 0


async def test_answers_to_other_prompts_are_left_out(plan: Plan, tmp_path: Path) -> None:
    await run(plan, tmp_path, ScriptedEngines(Oracle(plan)))
    path = tmp_path / "samples.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text(first.replace('"prompt_sha256": "', '"prompt_sha256": "0') + "".join(others))
    assert len(taken(plan, tmp_path).records) == 5
