"""One place says what cannot be judged, and every verdict follows it."""

from __future__ import annotations

from pathlib import Path

from support.judge_command import kveval
from support.make_run import scored
from support.nights import asked_in_turn, breaking, night

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.trust.find import void_of
from kveval.judge.trust.problem import Problem

ROWS = asked_in_turn()


def test_a_collapsed_baseline_passes_nobody(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, bf16=breaking(ROWS, 0.3), fp8=scored(0.9))
    judgement = judge_run(run)
    assert {one.code for one in judgement.problems if one.variant == "bf16"} == {"answers_change"}
    assert {row.verdict.word for row in judgement.comparisons if row.verdict} == {"undecided"}
    result = kveval("gate", run.path)
    assert result.code == 3
    assert kveval("recommend", run.path).code != 0


def test_a_collapsed_candidate_is_no_regression(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, fp8=breaking(ROWS, 0.66), int8=scored(0.9))
    result = kveval("gate", run.path)
    assert result.code == 3
    assert "answers change at question" in result.text
    words = {row.variant: row.verdict.word for row in judge_run(run).of("int8", "overall") if row.verdict}
    assert words == {"int8": "pass"}


def test_only_what_is_void_takes_verdicts_away() -> None:
    partly = Problem("fp8", "unanswered", "fp8: some")
    void = Problem("int8", "facts_changed", "int8: changed")
    assert void_of([partly, void], "fp8", "bf16") is None
    assert void_of([partly, void], "int8", "bf16") == void
