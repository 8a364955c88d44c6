"""A finished run that gets more samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines, always
from support.sweeps import Nth, Planner, records, run

from kveval.errors import EngineError, ResumeError
from kveval.judge.run_data import load_ended_run
from kveval.measure.rebuild import asked_sample
from kveval.run.directory import RunDirectory

GROWING = {"variants": ["bf16", {"name": "fp8", "control": "emulated"}], "aa_share": 0.5, "cold_check": 0.5}


def ids(out: Path, variant: str) -> list[str]:
    return [record.sample_id for record in records(out, variant)]


def documents(out: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in out.glob("*.json*")}


async def test_a_finished_run_grows_and_asks_only_what_was_added(plan_of: Planner, tmp_path: Path) -> None:
    small = plan_of(samples=12, **GROWING)
    await run(small, tmp_path, ScriptedEngines(Oracle(small)))
    before = {name: records(tmp_path, name) for name in ("bf16", "bf16-aa", "fp8", "fp8-control")}
    cold = {one.sample_id for one in RunDirectory(tmp_path).cold_records("bf16")}

    large = plan_of(out=tmp_path, samples=30, **GROWING)
    oracle = Oracle(large)
    engines = ScriptedEngines(oracle)
    manifest = await run(large, tmp_path, engines, resume=True)

    assert manifest.status == "complete"
    assert (manifest.samples, manifest.config["samples"]) == (30, 30)
    [growth] = manifest.growth
    assert [(cell.before, cell.after) for cell in growth.cells] == [(12, 30)]
    for name, answered in before.items():
        assert records(tmp_path, name)[: len(answered)] == answered
        planned = {s.sample_id for v in large.variants if v.name == name for s in large.samples_of(v)}
        assert set(ids(tmp_path, name)) == planned
    assert len(before["bf16-aa"]) == 6
    assert len(ids(tmp_path, "bf16-aa")) == 15
    assert manifest.aa_sample_ids == sorted(large.aa_sample_ids)
    colder = {one.sample_id for one in RunDirectory(tmp_path).cold_records("bf16")}
    assert cold < colder
    old = {sample.sample_id for sample in small.samples}
    warm = [oracle.sample(body["prompt"]).sample_id for body in engines.servers["bf16"].requests
            if body.get("cache_salt") is None]  # fmt: skip
    assert not old & set(warm)
    judged = load_ended_run(tmp_path)
    assert len(judged.samples) == 30
    # A run that grew can be resumed and read like any other.
    again = await run(plan_of(out=tmp_path, samples=30, **GROWING), tmp_path, engines, resume=True)
    assert again.status == "complete"


async def test_sentinels_of_a_grown_run_are_questions_from_its_start(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.measure.watch.blocks.LEAST_SENTINELS", 4)
    small = plan_of(samples=12, variants=["bf16"])
    await run(small, tmp_path, ScriptedEngines(Oracle(small)))
    large = plan_of(out=tmp_path, samples=60, variants=["bf16"])
    await run(large, tmp_path, ScriptedEngines(Oracle(large)), resume=True)
    asked = [one.sample_id for one in RunDirectory(tmp_path).sentinel_records("bf16")]
    assert len(asked) > 4
    assert set(asked) <= {sample.sample_id for sample in small.samples}


async def test_an_interrupted_growth_is_incomplete_and_goes_on(plan_of: Planner, tmp_path: Path) -> None:
    small = plan_of()
    await run(small, tmp_path, ScriptedEngines(Oracle(small)))
    large = plan_of(out=tmp_path, samples=12)
    oracle = Oracle(large)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = Nth(oracle, Reply(die=True), every=1)
    manifest = await run(large, tmp_path, engines, resume=True)

    assert manifest.status == "incomplete"
    assert manifest.variants["bf16"].status == "complete"
    assert manifest.variants["fp8"].status == "stopped"

    again = plan_of(out=tmp_path, samples=12)
    assert again.growth == large.growth
    manifest = await run(again, tmp_path, ScriptedEngines(oracle), resume=True, retry_errors=True)
    assert manifest.status == "complete"
    assert set(ids(tmp_path, "fp8")) == {sample.sample_id for sample in large.samples}


async def test_another_engine_adds_nothing_and_the_run_stays_as_it_was(plan_of: Planner, tmp_path: Path) -> None:
    small = plan_of()
    await run(small, tmp_path, ScriptedEngines(Oracle(small)))
    before = documents(tmp_path)

    large = plan_of(out=tmp_path, samples=12)
    engines = ScriptedEngines(Oracle(large))
    engines.options["bf16"] = {"version": "another"}
    with pytest.raises(ResumeError, match="engine_version of bf16 was 'scripted' in this run"):
        await run(large, tmp_path, engines, resume=True)
    engines = ScriptedEngines(always(Reply()))
    engines.fail_to_start["bf16"] = (1, "bf16: no GPU")
    with pytest.raises(EngineError, match="no GPU"):
        await run(plan_of(out=tmp_path, samples=12), tmp_path, engines, resume=True)

    assert documents(tmp_path) == before
    assert load_ended_run(tmp_path).manifest.status == "complete"


async def test_other_changes_are_refused_as_before(plan_of: Planner, tmp_path: Path) -> None:
    small = plan_of()
    await run(small, tmp_path, ScriptedEngines(Oracle(small)))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"seed": 1}, "seed was 0"),
        ({"questions_per_haystack": 4}, "questions_per_haystack was 3"),
        ({"tasks": ["niah_multikey"]}, r"tasks\.0\.name was 'niah_single'"),
        ({"context_lengths": [512, 1024]}, "context_lengths was"),
    ]
    for change, message in changes:
        plan = plan_of(out=tmp_path, samples=12, **change)
        with pytest.raises(ResumeError, match=message):
            await run(plan, tmp_path, ScriptedEngines(Oracle(plan)), resume=True)


async def test_a_plan_made_before_another_growth_is_refused(plan_of: Planner, tmp_path: Path) -> None:
    small = plan_of(variants=["bf16"])
    await run(small, tmp_path, ScriptedEngines(Oracle(small)))
    late = plan_of(out=tmp_path, samples=24, variants=["bf16"])
    large = plan_of(out=tmp_path, samples=12, variants=["bf16"])
    await run(large, tmp_path, ScriptedEngines(Oracle(large)), resume=True)
    with pytest.raises(ResumeError):
        await run(late, tmp_path, ScriptedEngines(Oracle(late)), resume=True)


async def test_prompts_of_added_samples_are_built_again(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = plan_of(variants=["bf16"])
    await run(small, tmp_path, ScriptedEngines(Oracle(small)))
    large = plan_of(out=tmp_path, samples=12, variants=["bf16"])
    await run(large, tmp_path, ScriptedEngines(Oracle(large)), resume=True)
    for sample in (large.samples[0], large.samples[-1]):
        assert asked_sample(tmp_path, sample.sample_id).sample.prompt.sha256() == sample.prompt.sha256()
