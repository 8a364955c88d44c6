from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.forcing import forcing
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


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one | {"score": 0.99},
        lambda one: one | {"token_ids": [[1]], "logprobs": [[0.0]], "score": 1.0},
        lambda one: one | {"logprobs": [[]], "score": 1.0},
        lambda one: one | {"logprobs": [], "score": 1.0},
        lambda one: one | {"unit": "entries"},
    ],
)
async def test_an_expected_score_that_does_not_follow_from_its_probabilities_is_not_believed(
    plan: Plan, tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    engines = ScriptedEngines(Oracle(plan))
    engines.force["bf16"] = (tmp_path, forcing(tmp_path))
    out = tmp_path / "run"
    await run(plan, out, engines)
    assert taken(plan, out).refusal is None
    path = out / "records" / "bf16.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    record = json.loads(first)
    path.write_text(json.dumps(record | {"expected": change(record["expected"])}) + "\n" + "".join(others))
    found = taken(plan, out)
    assert (found.records, found.cold) == ({}, {})
    assert "does not follow from the probabilities beside it" in str(found.refusal)


async def test_expected_scores_at_another_temperature_are_asked(plan: Plan, plan_of: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(Oracle(plan))
    engines.force["bf16"] = (tmp_path, forcing(tmp_path))
    await run(plan, tmp_path / "run", engines)
    other = plan_of(variants=["bf16"], requests={"serving_temperature": 0.5})
    assert taken(other, tmp_path / "run") == Taken({}, {})
