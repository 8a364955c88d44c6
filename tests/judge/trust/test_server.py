"""What was looked at again while a variant was asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.make_run import make_record, scored
from support.nights import asked_in_turn, night

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import RunData
from kveval.judge.trust.server import sentinels_differ
from kveval.run.records import Outcome, SentinelRecord

ROWS = asked_in_turn()


def test_changed_facts_end_the_trust_in_a_variant(tmp_path: Path) -> None:
    change = {
        "at_question": 60, "at": "2026-11-30T12:41:07+00:00", "name": "effective_cache_dtype", "before": "fp8",
        "after": "bfloat16",
    }  # fmt: skip
    run = night(tmp_path, ROWS, {"fp8": {"facts_changed": [change]}}, fp8=scored(0.9))
    (problem,) = judge_run(run).problems
    assert (problem.code, problem.at_question, problem.is_void) == ("facts_changed", 60, True)
    assert "effective_cache_dtype was fp8 and is bfloat16" in problem.message
    assert "(12:41 UTC)" in problem.message


def sentinels(run: RunData, turned_from: int, count: int = 24) -> RunData:
    """Asks the first question again: right before `turned_from` questions were answered, wrong after."""
    row = next(row for row in ROWS if run.records["fp8"].at[row.sample_id, "outcome"] == "correct")
    found = []
    for number in range(count):
        asked_after = number * len(ROWS) // count
        outcome: Outcome = "correct" if asked_after < turned_from else "wrong"
        found.append(SentinelRecord(**dict(make_record(row, "fp8", outcome, "x")), asked_after=asked_after))
    return replace(run, sentinels={"fp8": tuple(found)})


def test_sentinels_that_turn_wrong_are_a_change_with_its_moment(tmp_path: Path) -> None:
    run = sentinels(night(tmp_path, ROWS, fp8=scored(0.9)), turned_from=120)
    found = sentinels_differ(run, run.manifest.variants["fp8"])
    assert found is not None
    assert found.code == "sentinels_differ"
    assert found.at_question is not None
    assert 100 <= found.at_question <= 140


def test_sentinels_that_stay_or_were_never_asked_are_no_problem(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, fp8=scored(0.9))
    for one in (run, sentinels(run, turned_from=10_000), sentinels(run, turned_from=230)):
        assert sentinels_differ(one, one.manifest.variants["fp8"]) is None
