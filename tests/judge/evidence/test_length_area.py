from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.evidence.length_area import length_areas, log_weights
from kveval.judge.run_data import load_run


def test_weights_are_those_of_a_trapezoid_over_the_logarithm_of_the_length():
    assert log_weights([1024, 2048]) == [0.5, 0.5]
    assert log_weights([1024, 2048, 8192]) == pytest.approx([1 / 6, 1 / 2, 1 / 3])


def by_length(row, _):
    right = row.context_length == 2048
    return ("correct", "x") if right else ("wrong", "y")


def test_the_area_joins_the_losses_of_the_lengths(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048, 4096, 16384), haystacks=10, questions=4)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(1.0), "int2": by_length})
    [area] = length_areas(load_run(path), confidence=0.95)
    assert area.context_lengths == (2048, 4096, 16384)
    assert area.baseline == pytest.approx(1.0)
    assert area.own == pytest.approx(1 / 6)
    assert area.delta == pytest.approx(-5 / 6)
    assert -1 <= area.low < area.delta


def test_equal_answers_keep_an_interval_and_one_length_has_no_area(tmp_path: Path) -> None:
    samples = make_samples(lengths=(2048, 4096), haystacks=10, questions=4)
    answers = {"bf16": scored(0.9), "same": scored(0.9)}
    [area] = length_areas(load_run(make_run(tmp_path / "a", samples=samples, answers=answers)), confidence=0.95)
    assert area.delta == 0
    assert area.low < 0 < area.high
    single = make_samples(lengths=(2048,), haystacks=10, questions=4)
    assert length_areas(load_run(make_run(tmp_path / "b", samples=single, answers=answers)), confidence=0.95) == []
