"""A night that takes the answers of an earlier one, and one that must not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.forcing import forcing
from support.scripted import Handler, Oracle, Reply, ScriptedEngines
from support.sweeps import Planner, records, run

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_ended_run
from kveval.judge.trust.earlier import EarlierAnswers
from kveval.measure.plan.plan import Plan
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest
from kveval.run.reuse import Reuse

VARIANTS = ["bf16", "int8"]
NIGHT: dict[str, Any] = {"variants": VARIANTS, "samples": 30, "aa_share": 0.5, "cold_check": 6}
NAMES = ("bf16", "bf16-aa", "int8")


class Nights:
    """Runs one night after the other, each with the answers of the one before."""

    def __init__(self, plan_of: Planner, store: Path) -> None:
        self.plan_of, self.store = plan_of, store

    async def night(
        self, name: str, change: Callable[[ScriptedEngines, Oracle], None] | None = None, **config: Any
    ) -> tuple[Manifest, ScriptedEngines, Plan]:
        plan = self.plan_of(**{**NIGHT, "baseline_from": str(self.store), **config})
        oracle = Oracle(plan)
        engines = ScriptedEngines(oracle)
        if change:
            change(engines, oracle)
        out = self.store / name
        manifest = await run(plan, out, engines, confirm=EarlierAnswers(), resume=RunDirectory(out).exists())
        return manifest, engines, plan

    def asked_here(self, name: str, variant: str) -> set[str]:
        return {one.sample_id for one in records(self.store / name, variant) if one.reused_from is None}


@pytest.fixture
def nights(plan_of: Planner, tmp_path: Path) -> Nights:
    return Nights(plan_of, tmp_path / "store")


def reuse_of(manifest: Manifest, variant: str) -> Reuse:
    reuse = manifest.variants[variant].reuse
    assert reuse is not None
    return reuse


async def test_a_night_on_which_nothing_changed_costs_the_confirmation(nights: Nights) -> None:
    first, before, plan = await nights.night("first")
    assert all(reuse_of(first, name).refusal == f"{nights.store} holds no earlier run" for name in VARIANTS)
    second, engines, _ = await nights.night("second")

    assert second.status == "complete"
    assert engines.launches == VARIANTS
    # 3 of 10 haystacks of 3 would be 30%; 10% is one, and at least two are asked.
    for name in VARIANTS:
        asked = nights.asked_here("second", name)
        assert len(asked) == 6
        assert len({sample.haystack_id for sample in plan.samples if sample.sample_id in asked}) == 2
        reuse = reuse_of(second, name)
        assert (reuse.run_id, reuse.answers, reuse.refusal) == (first.run_id, 24, None)
        assert reuse.confirmed_by == name
        assert reuse.confirmation is not None
        assert reuse.confirmation.haystacks == 2
        assert (reuse.confirmation.moved.questions, reuse.confirmation.moved.differing) == (6, 0)
        assert reuse.asked_from is not None
        assert "answers_reused" in {finding.code for finding in second.variants[name].findings}
    again = reuse_of(second, "bf16-aa")
    assert (again.answers, again.confirmed_by, again.confirmation) == (15, "bf16", None)
    assert second.variants["bf16-aa"].facts == first.variants["bf16-aa"].facts
    assert engines.requests() < before.requests() / 3
    for name in NAMES:
        then = {one.sample_id: one for one in records(nights.store / "first", name)}
        now = {one.sample_id: one for one in records(nights.store / "second", name)}
        assert now.keys() == then.keys()
        assert {one.reused_from for one in now.values()} <= {None, first.run_id}
        assert all(now[key].output == then[key].output for key in now)
        cold = {one.sample_id for one in RunDirectory(nights.store / "second").cold_records(name)}
        assert cold == {one.sample_id for one in RunDirectory(nights.store / "first").cold_records(name)}
    judged = [judge_run(load_ended_run(nights.store / name)) for name in ("first", "second")]
    assert not judged[1].problems
    assert [(row.scope, row.difference.delta) for row in judged[0].comparisons] == [
        (row.scope, row.difference.delta) for row in judged[1].comparisons
    ]


async def test_every_night_asks_others_again_and_the_origin_of_an_answer_is_kept(nights: Nights) -> None:
    first, _, _ = await nights.night("first")
    second, _, _ = await nights.night("second")
    third, _, _ = await nights.night("third")
    assert reuse_of(third, "bf16").run_id == second.run_id
    origins = {one.reused_from for one in records(nights.store / "third", "bf16")}
    assert origins <= {None, first.run_id, second.run_id}
    assert len({frozenset(nights.asked_here(name, "bf16")) for name in ("second", "third")}) == 2


def answers_other(engines: ScriptedEngines, oracle: Oracle) -> None:
    def other(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = oracle(prompt, body)
        return Reply(f"{reply.text} indeed") if reply.text and "cache_salt" not in body else reply

    engines.handlers["bf16"] = other


async def test_answers_that_differ_are_all_measured(nights: Nights) -> None:
    await nights.night("first")
    second, engines, plan = await nights.night("second", answers_other)

    reuse = reuse_of(second, "bf16")
    assert reuse.refusal == "6 of 6 questions asked again have another output (none of 15 in the A/A run)"
    assert reuse.answers == 0
    assert reuse.confirmation is not None
    assert reuse.confirmation.moved.differing == 6
    assert second.status == "complete"
    for name in ("bf16", "bf16-aa"):
        assert nights.asked_here("second", name) == {
            sample.sample_id for v in plan.variants if v.name == name for sample in plan.samples_of(v)
        }
    # Nothing is asked twice, and the engine is started once.
    assert engines.launches == ["bf16", "bf16-aa", "int8"]
    assert len(records(nights.store / "second", "bf16")) == 30
    assert reuse_of(second, "int8").refusal is None


@pytest.mark.parametrize(
    ("config", "refusal"),
    [
        ({"requests": {"timeout_s": 20.0, "max_attempts": 2, "max_in_flight": 1}}, "requests: max_in_flight was 32"),
        ({"engine": {"args": {"max-num-seqs": 8}}}, "bf16: engine_args was {} and is {'max-num-seqs': 8}"),
        ({"engine": {"env": {"VLLM_USE_V1": "1"}}}, "engine: env was {}"),
        ({"variants": [{"name": "bf16", "env": {"A": "b"}}, "int8"]}, "bf16: env was {} and is {'A': 'b'}"),
        ({"seed": 1}, "it has no answer to any of these questions"),
        ({"confirm_share": 1.0}, "it has answers in 10 contexts, and all of them would be asked again"),
    ],
)
async def test_what_decides_answers_and_changed_is_named(nights: Nights, config: dict[str, Any], refusal: str) -> None:
    await nights.night("first")
    second, _, plan = await nights.night("second", **config)
    assert refusal in str(reuse_of(second, "bf16").refusal)
    assert len(nights.asked_here("second", "bf16")) == len(plan.samples)
    assert second.status == "complete"


async def test_another_engine_version_is_named(nights: Nights) -> None:
    await nights.night("first")
    second, _, _ = await nights.night("second", lambda engines, _: engines.options.update(bf16={"version": "another"}))
    assert "engine_version was scripted and is another" in str(reuse_of(second, "bf16").refusal)
    assert reuse_of(second, "int8").refusal is None


async def test_a_candidate_that_changed_is_asked_and_the_baseline_is_not(nights: Nights) -> None:
    await nights.night("first")
    variants = ["bf16", {"name": "int8", "engine_args": {"max-num-seqs": 4}}]
    second, engines, plan = await nights.night("second", variants=variants)
    assert reuse_of(second, "bf16").refusal is None
    assert "int8: engine_args was {}" in str(reuse_of(second, "int8").refusal)
    assert len(nights.asked_here("second", "int8")) == len(plan.samples)
    assert engines.launches == ["bf16", "int8"]


def rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | str]) -> None:
    lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (lambda one: one | {"output": "nothing", "outcome": "correct"}, "as it is scored now"),
        (lambda one: one | {"score": 0.5}, "is correct with score 0.5 there, and correct with score 1"),
        (lambda one: one | {"haystack_id": "0"}, "says it is of another task, length or haystack"),
        (lambda one: one | {"sent_at": 1e300}, "says it was asked at 1e+300 seconds"),
        (lambda _: "[1]", "records/bf16.jsonl:1"),
        (lambda one: one | {"variant": "int8"}, "holds a record of variant 'int8'"),
    ],
)
async def test_records_of_another_run_are_not_believed(
    nights: Nights, change: Callable[[dict[str, Any]], dict[str, Any] | str], refusal: str
) -> None:
    await nights.night("first")
    rewrite(nights.store / "first" / "records" / "bf16.jsonl", change)
    second, _, plan = await nights.night("second")
    assert refusal in str(reuse_of(second, "bf16").refusal)
    assert len(nights.asked_here("second", "bf16")) == len(plan.samples)


async def test_a_run_whose_answers_cannot_be_judged_is_left_out(nights: Nights) -> None:
    def collapses(engines: ScriptedEngines, oracle: Oracle) -> None:
        engines.handlers["bf16"] = halfway(oracle)

    await nights.night("first", collapses, samples=60)
    second, _, _ = await nights.night("second", samples=60)
    assert "answers change at question" in str(reuse_of(second, "bf16").refusal)


def halfway(oracle: Oracle) -> Handler:
    asked = 0

    def answer(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal asked
        asked += "cache_salt" not in body
        return oracle(prompt, body) if asked <= 30 else Reply("no idea")

    return answer


async def test_a_sweep_killed_while_it_confirms_goes_on(nights: Nights) -> None:
    first, _, _ = await nights.night("first")

    def dies(engines: ScriptedEngines, oracle: Oracle) -> None:
        engines.fail_to_start["bf16"] = (2, "no memory")
        count = 0

        def answer(prompt: list[int], body: dict[str, Any]) -> Reply:
            nonlocal count
            count += "cache_salt" not in body
            return Reply(die=True) if count == 4 else oracle(prompt, body)

        engines.handlers["bf16"] = answer

    broken, _, _ = await nights.night("second", dies)
    assert broken.variants["bf16"].status == "stopped"
    assert broken.variants["bf16"].reuse is None
    asked = nights.asked_here("second", "bf16")
    assert 0 < len(asked) < 6

    second, _, _ = await nights.night("second")
    assert second.status == "complete"
    assert reuse_of(second, "bf16").run_id == first.run_id
    assert asked < nights.asked_here("second", "bf16")
    assert len(nights.asked_here("second", "bf16")) == 6


async def test_the_newest_run_that_fits_is_taken_and_broken_ones_are_passed_over(nights: Nights) -> None:
    first, _, _ = await nights.night("first")
    await nights.night("second", seed=1)
    (nights.store / "zzz").mkdir()
    (nights.store / "zzz" / "manifest.json").write_text("{")
    (nights.store / "not a run").mkdir()
    third, _, _ = await nights.night("third")
    assert reuse_of(third, "bf16").run_id == first.run_id
    (nights.store / "first" / "manifest.json").unlink()
    (nights.store / "third" / "manifest.json").unlink()
    fourth, _, _ = await nights.night("fourth")
    assert "(and 1 older runs do not fit either)" in str(reuse_of(fourth, "bf16").refusal)


async def test_one_run_may_be_named_instead_of_a_folder_of_runs(nights: Nights) -> None:
    first, _, _ = await nights.night("first")
    second, _, _ = await nights.night("second", baseline_from=str(nights.store / "first"))
    assert reuse_of(second, "int8").run_id == first.run_id


async def test_nothing_is_taken_unless_it_is_asked_for(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)), confirm=EarlierAnswers())
    assert manifest.variants["bf16"].reuse is None
    assert all(record.reused_from is None for record in records(tmp_path / "run", "bf16"))


def forced(folder: Path, **logprobs: float) -> Callable[[ScriptedEngines, Oracle], None]:
    """Every token of a right answer has the logprob of its variant."""

    def change(engines: ScriptedEngines, _: Oracle) -> None:
        for name in NAMES:
            own = folder / name
            own.mkdir(parents=True)
            logprob = logprobs.get(name, -0.2)
            engines.force[name] = (own, forcing(own, lambda _, logprob=logprob: logprob))

    return change


async def test_expected_scores_are_confirmed_too(nights: Nights, tmp_path: Path) -> None:
    await nights.night("first", forced(tmp_path / "1"))
    second, _, _ = await nights.night("second", forced(tmp_path / "2"))
    confirmation = reuse_of(second, "bf16").confirmation
    assert confirmation is not None
    assert (confirmation.moved.expected, confirmation.moved.expected_moved) == (6, 0.0)
    third, _, plan = await nights.night("third", forced(tmp_path / "3", bf16=-0.25))
    assert "6 of 6 questions asked again have another expected score (none of 15" in str(
        reuse_of(third, "bf16").refusal
    )
    assert len(nights.asked_here("third", "bf16")) == len(plan.samples)
    assert all(record.expected is not None for record in records(nights.store / "third", "bf16"))


async def test_a_server_that_can_no_longer_be_forced_takes_nothing(nights: Nights, tmp_path: Path) -> None:
    await nights.night("first", forced(tmp_path / "1"))
    second, _, _ = await nights.night("second")
    assert "forced_decode was True and is None" in str(reuse_of(second, "bf16").refusal)


async def test_a_run_that_asked_everything_is_resumed_as_it_is(nights: Nights) -> None:
    first, _, _ = await nights.night("first", baseline_from=None)
    again, engines, _ = await nights.night("first", cold_check=12)
    assert engines.launches == VARIANTS
    assert all(one.reuse is None for one in again.variants.values())
    assert again.run_id == first.run_id
