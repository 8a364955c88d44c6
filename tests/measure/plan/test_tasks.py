from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kveval.errors import ConfigError
from kveval.measure.plan.plan import Plan

Planner = Callable[..., Plan]


def test_margins_of_families_that_are_not_asked_tonight_are_fine(plan_of: Planner) -> None:
    assert plan_of(judge={"margins": {"code": 0.05, "needle": 0.01}}).samples


def test_tasks_of_a_folder_of_ones_own(plan_of: Planner, own_tasks: Path) -> None:
    plan = plan_of(include_path=str(own_tasks), tasks=["mine"], judge={"margins": {"own": 0.05}})
    assert {(sample.task, sample.family) for sample in plan.samples} == {("mine", "own")}
    with pytest.raises(ConfigError, match="unknown task 'mine'"):
        plan_of(tasks=["mine"])
    with pytest.raises(ConfigError, match="there is no task family 'own'"):
        plan_of(judge={"margins": {"own": 0.05}})
