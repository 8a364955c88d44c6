from __future__ import annotations

import random

import pytest

from kveval.judge.statistics.steps import find_step


def test_a_loss_that_begins_on_one_night_is_a_step_there() -> None:
    step = find_step([(0.0, 0.01), (0.005, 0.01), (-0.08, 0.01), (-0.09, 0.01)], error=0.01)
    assert step is not None
    assert (step.index, step.before, step.after) == (2, pytest.approx(0.0025), pytest.approx(-0.085))


def test_one_night_and_none_have_no_step() -> None:
    assert find_step([], error=0.01) is None
    assert find_step([(-0.5, 0.01)], error=0.01) is None


def test_nights_on_one_level_give_a_step_no_more_often_than_said() -> None:
    draw = random.Random(1)
    alarms = sum(
        find_step([(draw.gauss(-0.02, 0.01), 0.01) for _ in range(8)], error=0.05) is not None for _ in range(1000)
    )
    assert 0 < alarms <= 50


def test_a_night_with_a_wide_interval_counts_for_little() -> None:
    assert find_step([(0.0, 0.01), (0.0, 0.01), (-0.3, 0.5)], error=0.05) is None
