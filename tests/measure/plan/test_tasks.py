from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.sweeps import Planner

from kveval.errors import ConfigError, PlanError
from kveval.measure.plan.limits import TokenLimit
from kveval.measure.plan.tasks import plan_tasks, with_lengths


def test_margins_of_families_that_are_not_asked_tonight_are_fine(plan_of: Planner) -> None:
    assert plan_of(judge={"margins": {"code": 0.05, "needle": 0.01}}).samples


def test_tasks_of_a_folder_of_ones_own(plan_of: Planner, own_tasks: Path) -> None:
    plan = plan_of(include_path=str(own_tasks), tasks=["mine"], judge={"margins": {"own": 0.05}})
    assert {(sample.task, sample.family) for sample in plan.samples} == {("mine", "own")}
    with pytest.raises(ConfigError, match="unknown task 'mine'"):
        plan_of(tasks=["mine"])
    with pytest.raises(ConfigError, match="there is no task family 'own'"):
        plan_of(judge={"margins": {"own": 0.05}})


def test_cells_and_samples(plan_of: Planner) -> None:
    plan = plan_of(
        tasks=["niah_single", {"name": "niah_multikey", "samples": 2, "context_lengths": ["1k"]}],
        context_lengths=[512, 768],
        samples=5,
        questions_per_haystack=2,
    )  # fmt: skip
    assert [(cell.task, cell.context_length, cell.samples, cell.questions_per_haystack) for cell in plan.cells] == [
        ("niah_single", 512, 5, 2),
        ("niah_single", 768, 5, 2),
        ("niah_multikey", 1024, 2, 2),
    ]
    assert Counter((sample.task, sample.context_length) for sample in plan.samples) == {
        ("niah_single", 512): 5,
        ("niah_single", 768): 5,
        ("niah_multikey", 1024): 2,
    }
    assert len({sample.sample_id for sample in plan.samples}) == 12
    assert plan.max_model_len == max(len(s.prompt) + s.max_output_tokens for s in plan.samples) + 8


def test_a_task_may_have_an_output_budget_of_the_configuration(plan_of: Planner) -> None:
    plain = plan_of(tasks=["niah_single"])
    plan = plan_of(tasks=[{"name": "niah_single", "output_tokens": 300}])
    assert {sample.max_output_tokens for sample in plan.samples} == {300}
    assert plan.max_model_len > plain.max_model_len
    assert {sample.sample_id for sample in plan.samples}.isdisjoint(sample.sample_id for sample in plain.samples)
    same = plan_of(tasks=[{"name": "niah_single", "output_tokens": 48}])
    assert [sample.sample_id for sample in same.samples] == [sample.sample_id for sample in plain.samples]


def test_rows_of_ones_own_may_have_it_too(plan_of: Planner, tmp_path: Path) -> None:
    rows = tmp_path / "mine.jsonl"
    rows.write_text('{"prompt": "What is 1 + 1?", "answer": "2", "max_output_tokens": 8}\n', encoding="utf-8")
    plan = plan_of(tasks=[{"file": str(rows), "output_tokens": 77}])
    assert {sample.max_output_tokens for sample in plan.samples} == {77}


@pytest.mark.parametrize("value", [0, -1, True, 2.5, "many"])
def test_an_output_budget_is_a_number_of_tokens(plan_of: Planner, value: object) -> None:
    with pytest.raises(ConfigError, match="output_tokens"):
        plan_of(tasks=[{"name": "niah_single", "output_tokens": value}])


@pytest.mark.parametrize(
    ("window", "lengths"),
    [
        (2048, [1024]),
        (8192, [4096, 7168]),
        (16_384, [4096, 15_360]),
        (32_768, [4096, 16_384, 31_744]),
        (131_072, [4096, 16_384, 65_536, 130_048]),
        (1 << 20, [4096, 16_384, 65_536, 262_144, (1 << 20) - 1024]),
    ],
)
def test_lengths_that_nobody_gave_fill_the_window(plan_of: Planner, window: int, lengths: list[int]) -> None:
    config = plan_of().config.model_copy(update={"context_lengths": []})
    found = with_lengths(config, plan_tasks(config), [TokenLimit("a", window), TokenLimit("b", 1 << 30)])
    assert found.context_lengths == lengths


def test_lengths_leave_room_for_the_longest_output(plan_of: Planner) -> None:
    config = plan_of(tasks=[{"name": "niah_single", "output_tokens": 1500}]).config
    config = config.model_copy(update={"context_lengths": []})
    assert with_lengths(config, plan_tasks(config), [TokenLimit("a", 8192)]).context_lengths == [4096, 6144]
    with pytest.raises(
        PlanError, match="context_lengths: required, not given: a window of 2048 tokens with an output of"
    ):
        with_lengths(config, plan_tasks(config), [])


def test_lengths_that_are_given_stay(plan_of: Planner) -> None:
    assert (
        plan_of(tasks=[{"name": "niah_single", "context_lengths": [512]}], context_lengths=[]).config.context_lengths
        == []
    )
    given = plan_of(context_lengths=[512]).config
    assert with_lengths(given, plan_tasks(given), []) is given


def test_a_plan_without_lengths_keeps_those_it_chose(plan_of: Planner) -> None:
    plan = plan_of(context_lengths=[])
    assert plan.config.context_lengths == sorted({cell.context_length for cell in plan.cells}) != []
