"""Samples asked again without the prefix cache, in whole sweeps against scripted servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Planner, run

from kveval.measure.plan.describe import describe
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory
from kveval.run.records import Record

SMOKE = "kveval-smoke"


def cold(out: Path, variant: str) -> list[Record]:
    return list(RunDirectory(out).cold_records(variant))


def salts(engines: ScriptedEngines, variant: str) -> list[str]:
    bodies = engines.servers[variant].requests
    return [body["cache_salt"] for body in bodies if body.get("cache_salt", SMOKE) != SMOKE]


def test_nothing_is_asked_again_where_nothing_is_shared(plan_of: Planner) -> None:
    assert plan_of(questions_per_haystack=1, cold_check=4).cold_samples == []


async def test_the_cold_check_leaves_the_samples_alone(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}], aa_share=1.0, cold_check=3)
    without = plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}], aa_share=1.0)
    engines = ScriptedEngines(Oracle(plan))
    manifest = await run(plan, tmp_path / "run", engines)
    await run(without, tmp_path / "without", other := ScriptedEngines(Oracle(without)))

    assert manifest.status == "complete"
    for name in ("bf16", "fp8"):
        answered = cold(tmp_path / "run", name)
        assert sorted(record.sample_id for record in answered) == sorted(s.sample_id for s in plan.cold_samples)
        assert {(record.outcome, record.cached_tokens) for record in answered} == {("correct", 0)}
        assert len(set(salts(engines, name))) == 3
    for name in ("bf16-aa", "fp8-control"):
        assert cold(tmp_path / "run", name) == []
        assert salts(engines, name) == []
    for name in manifest.variants:
        first, second = (
            [(r.sample_id, r.output, r.cached_tokens) for r in RunDirectory(tmp_path / folder).records(name)]
            for folder in ("run", "without")
        )
        assert sorted(first) == sorted(second)
        # What the cold check asks is no part of what the sweep counted.
        assert (
            manifest.variants[name].counters
            == RunDirectory(tmp_path / "without").read_manifest().variants[name].counters
        )
    assert engines.requests() == other.requests()


async def test_the_plan_and_the_progress_count_it(plan_of: Planner, tmp_path: Path) -> None:
    plan, without = plan_of(cold_check=3), plan_of()
    described, plain = describe(plan), describe(without)
    assert described["requests"] - plain["requests"] == described["of_them_without_prefix_cache"] == 6
    assert described["prefill_tokens_without_prefix_cache"] == 2 * sum(len(s.prompt) for s in plan.cold_samples)
    assert plain["of_them_without_prefix_cache"] == plain["prefill_tokens_without_prefix_cache"] == 0

    class Counting(SilentReporter):
        total = done = samples = answers = 0

        def begin(self, total_tokens: int, done_tokens: int) -> None:
            self.total = total_tokens - done_tokens

        def variant(self, name: str, samples: int, done: int) -> None:
            self.samples += samples - done

        def answered(self, record: Record, tokens: int) -> None:
            self.answers += 1
            self.done += tokens

    counting = Counting()
    engines = ScriptedEngines(Oracle(plan))
    await sweep(plan, tmp_path / "run", resume=False, reporter=counting, open_engine=engines)
    assert counting.answers == counting.samples == 2 * (6 + 3)
    assert counting.done == counting.total


async def test_resume_asks_only_what_is_missing(plan_of: Planner, tmp_path: Path) -> None:
    out = tmp_path / "run"
    plan = plan_of(cold_check=4)
    engines = ScriptedEngines(Oracle(plan))
    before = await run(plan, out, engines)
    directory = RunDirectory(out)
    records = {name: directory.records_path(name).read_bytes() for name in ("bf16", "fp8")}

    await run(plan, out, engines, resume=True)
    assert engines.launches == ["bf16", "fp8"]

    lines = directory.cold_path("fp8").read_bytes().splitlines(keepends=True)
    directory.cold_path("fp8").write_bytes(b"".join(lines[:2]) + lines[2][:40])
    asked = engines.requests()
    after = await run(plan, out, engines, resume=True)
    assert engines.launches == ["bf16", "fp8", "fp8"]
    assert engines.requests() == asked
    assert len(salts(engines, "fp8")) == 4 + 2
    assert sorted(r.sample_id for r in cold(out, "fp8")) == sorted(s.sample_id for s in plan.cold_samples)
    assert directory.cold_path("fp8").read_bytes().startswith(b"".join(lines[:2]))
    assert {name: directory.records_path(name).read_bytes() for name in records} == records
    assert after.status == "complete"
    assert after.variants["fp8"].counters == before.variants["fp8"].counters


async def test_a_server_that_dies_of_it_keeps_its_answers(plan_of: Planner, tmp_path: Path) -> None:
    out = tmp_path / "run"
    plan = plan_of(cold_check=4, requests={"timeout_s": 20.0, "max_attempts": 1, "max_in_flight": 1})
    oracle = Oracle(plan)

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        if body.get("cache_salt", SMOKE) != SMOKE and len(salts(engines, "fp8")) == 3:
            return Reply("x", die=True)
        return oracle(prompt, body)

    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = handler
    manifest = await run(plan, out, engines)
    assert manifest.status == "complete"
    assert engines.launches == ["bf16", "fp8"]
    assert len(cold(out, "fp8")) == 2
    assert len(list(RunDirectory(out).records("fp8"))) == len(plan.samples)

    engines.servers["fp8"].handler = oracle
    await run(plan, out, engines, resume=True)
    assert len(cold(out, "fp8")) == 4
