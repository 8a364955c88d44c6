"""How many questions share a haystack, where the configuration leaves it open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, scored
from support.sweeps import Planner

from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.questions.earlier import config_sha256
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
