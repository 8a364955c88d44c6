"""Differences that no cache format causes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.make_run import losing, scored
from support.nights import asked_in_turn, night

from kveval.judge.comparison.judgement import judge_run

ROWS = asked_in_turn()


def codes(folder: Path, **answers: object) -> set[tuple[str, str]]:
    run = night(folder, ROWS, **answers)  # type: ignore[arg-type]
    return {(one.variant, one.code) for one in judge_run(run).problems}


def test_equal_runs_have_no_problem(tmp_path: Path) -> None:
    assert codes(tmp_path, bf16_aa=scored(0.9), fp8=losing(0.1)) == set()


def test_a_second_run_far_from_the_first_is_the_baselines_problem(tmp_path: Path) -> None:
    assert codes(tmp_path, bf16_aa=losing(0.3), fp8=scored(0.9)) == {("bf16", "unequal_control")}


def test_a_gain_beyond_the_margin_is_a_problem_and_no_pass(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, bf16=losing(0.4), fp8=scored(0.9))
    judgement = judge_run(run)
    assert [(one.variant, one.code) for one in judgement.problems] == [("fp8", "impossible_gain")]
    (overall,) = judgement.of("fp8", "overall")
    assert overall.verdict is not None
    assert overall.verdict.word == "undecided"
    assert "scores better than the baseline" in overall.verdict.reason


def test_greedy_answers_count_even_if_the_verdict_rests_on_expected_scores(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, bf16=losing(0.4), fp8=scored(0.9))
    expected = {"score": 0.8, "unit": "probability", "temperature": 1.0}
    frames = {name: records.assign(expected=[expected] * len(records)) for name, records in run.records.items()}
    (problem,) = judge_run(replace(run, records=frames)).problems
    assert problem.code == "impossible_gain"


@pytest.mark.parametrize("share", [0.9, 0.905])
def test_a_gain_within_the_margin_is_chance(tmp_path: Path, share: float) -> None:
    assert codes(tmp_path, bf16=scored(0.9), fp8=scored(share)) == set()


def test_a_variant_with_a_model_of_its_own_may_gain(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, {"fp8": {"spec": {"model": "/other"}}}, bf16=losing(0.4), fp8=scored(0.9))
    assert judge_run(run).problems == ()
