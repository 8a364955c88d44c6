"""How many questions share a haystack, where the configuration leaves it open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, scored
from support.scripted import Oracle, ScriptedEngines
from support.sweeps import Planner, run

from kveval.errors import ResumeError
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.questions.earlier import config_sha256
from kveval.measure.rebuild import asked_sample
from kveval.run.directory import RunDirectory

OPEN: dict[str, Any] = {
    "questions_per_haystack": "auto", "tasks": ["niah_multikey"], "context_lengths": [512, 4096], "samples": 120,
}  # fmt: skip


def numbers(plan: Plan) -> dict[int, int]:
    return {one.context_length: one.questions for one in plan.questions}


def test_the_longer_the_context_the_more_questions_share_it(plan_of: Planner) -> None:
    plan = plan_of(**OPEN)
    chosen = numbers(plan)
    assert 1 < chosen[512] < chosen[4096]
    for one in plan.questions:
        assert "assumed from its" in one.because
        assert "a careful default" in one.because
        contexts = {sample.haystack_id for sample in plan.samples if sample.context_length == one.context_length}
        assert len(contexts) == -(-120 // one.questions) >= 6


def test_few_samples_leave_the_contexts_that_a_pass_needs(plan_of: Planner) -> None:
    plan = plan_of(**OPEN | {"samples": 12})
    assert all(number <= 2 for number in numbers(plan).values())


def test_the_same_configuration_gives_the_same_numbers_and_samples(plan_of: Planner) -> None:
    first, second = plan_of(**OPEN), plan_of(**OPEN)
    assert first.questions == second.questions
    assert [one.sample_id for one in first.samples] == [one.sample_id for one in second.samples]


def test_a_number_in_the_configuration_is_taken_as_it_is(plan_of: Planner) -> None:
    fixed = plan_of(**OPEN | {"questions_per_haystack": 5})
    assert fixed.questions == ()
    mixed = plan_of(**OPEN | {"tasks": ["niah_single", {"name": "niah_multikey", "questions_per_haystack": 4}]})
    assert {one.task for one in mixed.questions} == {"niah_single"}


def earlier_run(plan: Plan, path: Path, **manifest: Any) -> Path:
    inputs = {"model/config.json": config_sha256(plan.model.path)}
    return make_run(path, answers={"bf16": scored(0.9)}, manifest={"inputs": inputs} | manifest)


def chosen_before(questions: int) -> dict[str, Any]:
    return {
        "questions_per_haystack": [
            {"task": "niah_multikey", "context_length": length, "samples": 120, "questions": questions, "because": "x"}
            for length in (512, 4096)
        ]
    }


def test_the_number_of_an_earlier_run_is_kept_if_it_is_nearly_as_good(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(**OPEN)
    best = numbers(plan)[512]
    earlier_run(plan, tmp_path / "runs" / "monday", **chosen_before(best + 1))
    config = plan.config.model_copy(update={"out": tmp_path / "runs" / "tuesday"})
    again = make_plan(config, plan.installation)
    assert numbers(again)[512] == best + 1
    assert "would save less than 10% of the time" in again.questions[0].because


def test_a_number_that_costs_more_is_not_kept_and_that_is_said(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(**OPEN)
    earlier_run(plan, tmp_path / "runs" / "monday", **chosen_before(1))
    again = make_plan(plan.config.model_copy(update={"out": tmp_path / "runs" / "tuesday"}), plan.installation)
    assert numbers(again) == numbers(plan)
    assert all("has 1, so answers cannot be paired" in one.because for one in again.questions)


def test_the_run_whose_answers_may_be_taken_decides(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(**OPEN)
    named = earlier_run(plan, tmp_path / "runs" / "monday", **chosen_before(1))
    again = make_plan(plan.config.model_copy(update={"baseline_from": named}), plan.installation)
    assert numbers(again) == {512: 1, 4096: 1}


@pytest.mark.parametrize("samples", [120, 240])
def test_a_run_that_goes_on_keeps_its_numbers(plan_of: Planner, tmp_path: Path, samples: int) -> None:
    plan = plan_of(**OPEN)
    changed = [one.model_copy(update={"questions": 3}) for one in plan.questions]
    run = RunDirectory(earlier_run(plan, tmp_path / "run", **chosen_before(3)))
    manifest = run.read_manifest().model_copy(update={"questions_per_haystack": changed, "config": {}})
    from kveval.measure.plan.tasks import plan_tasks
    from kveval.measure.questions.choose import careful_clustering, choose_questions

    config = plan.config.model_copy(update={"samples": samples})
    kept = choose_questions(config, plan_tasks(config), plan.model.path, "cpu", manifest, careful_clustering)
    assert {one.questions for one in kept} == {3}


def test_a_run_made_with_a_number_keeps_it_without_one(plan_of: Planner) -> None:
    from kveval.measure.questions.choose import kept_number

    plan = plan_of(**OPEN)
    manifest: Any = type("Earlier", (), {"config": {"questions_per_haystack": 10}})()
    assert kept_number(plan.config, manifest).questions_per_haystack == 10
    assert kept_number(plan.config, None).questions_per_haystack == "auto"


AUTO: dict[str, Any] = {"questions_per_haystack": "auto", "samples": 96, "context_lengths": [512]}


def number(plan: Plan) -> int:
    [one] = plan.questions
    [cell] = plan.cells
    assert cell.questions_per_haystack == one.questions
    return one.questions


async def answered(plan: Plan, out: Path, **options: Any) -> Path:
    await run(plan, out, ScriptedEngines(Oracle(plan)), **options)
    return out


def test_a_number_chosen_is_as_good_as_the_number_written_down(plan_of: Planner) -> None:
    chosen = plan_of(**AUTO)
    written = plan_of(**AUTO | {"questions_per_haystack": number(chosen)})
    assert written.questions == ()
    assert [one.sample_id for one in written.samples] == [one.sample_id for one in chosen.samples]


def test_what_a_haystack_holds_is_the_limit(plan_of: Planner) -> None:
    plan = plan_of(**AUTO | {"tasks": ["fact_update"], "context_lengths": [1024], "samples": 60})
    assert number(plan) == 3
    assert plan.questions[0].because.endswith("would be best, but a haystack holds 3")


async def test_a_run_keeps_it_when_it_goes_on_and_when_it_grows(plan_of: Planner, tmp_path: Path) -> None:
    small = plan_of(**AUTO | {"samples": 14})
    out = await answered(small, tmp_path / "runs" / "run")
    assert RunDirectory(out).read_manifest().questions_per_haystack == list(small.questions)

    large = plan_of(out=out, **AUTO | {"samples": 140})
    assert number(large) == number(small)
    assert number(plan_of(**AUTO | {"samples": 140})) > number(small)
    await answered(large, out, resume=True)
    manifest = RunDirectory(out).read_manifest()
    assert manifest.status == "complete"
    assert manifest.questions_per_haystack == list(small.questions)
    rebuilt = asked_sample(out, large.samples[-1].sample_id)
    assert rebuilt.sample.sample_id == large.samples[-1].sample_id


async def test_a_run_from_before_auto_goes_on_with_its_number(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(samples=6, questions_per_haystack=2)
    out = await answered(plan, tmp_path / "run")
    again = plan_of(out=out, samples=6, questions_per_haystack="auto")
    assert again.questions == ()
    assert [one.sample_id for one in again.samples] == [one.sample_id for one in plan.samples]
    await answered(again, out, resume=True)
    with pytest.raises(ResumeError, match="questions_per_haystack was 2 in this run and is 3 now"):
        await answered(plan_of(out=out, samples=6, questions_per_haystack=3), out, resume=True)


async def test_another_task_in_a_run_that_goes_on_is_refused_in_words(plan_of: Planner, tmp_path: Path) -> None:
    out = await answered(plan_of(**AUTO | {"samples": 6}), tmp_path / "run")
    other = plan_of(out=out, **AUTO | {"samples": 6, "tasks": ["niah_multikey"]})
    with pytest.raises(ResumeError, match="tasks"):
        await answered(other, out, resume=True)
