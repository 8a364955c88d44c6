"""Answers that change in the order of asking are the server's change, named with its question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.make_run import losing, scored
from support.nights import asked_in_turn, breaking, night

from kveval.judge.run_data import RunData
from kveval.judge.trust.answers import answers_change
from kveval.judge.trust.problem import Problem

ROWS = asked_in_turn()


def change(run: RunData, variant: str = "fp8") -> Problem | None:
    return answers_change(run, variant, against_baseline=variant != "bf16", unanswered_limit=0.02)


@pytest.mark.parametrize("since", [0.25, 0.66])
def test_a_collapse_is_named_with_its_question(tmp_path: Path, since: float) -> None:
    found = change(night(tmp_path, ROWS, fp8=breaking(ROWS, since)))
    assert found is not None
    assert (found.code, found.is_void) == ("answers_change", True)
    assert found.at_question == pytest.approx(since * len(ROWS) + 1, abs=3)
    assert f"of {len(ROWS):,}" in found.message
    assert "the server changed" in found.message


def test_a_server_that_recovers_is_named_with_both_ends(tmp_path: Path) -> None:
    rows = asked_in_turn(haystacks=30, questions=4)
    found = change(night(tmp_path, rows, fp8=breaking(rows, 0.4, 0.6)))
    assert found is not None
    assert "change back at question" in found.message


@pytest.mark.parametrize("answer", [scored(0.9), losing(0.3), scored(0.4)])
def test_a_steady_variant_has_no_change_however_bad_it_is(tmp_path: Path, answer: object) -> None:
    assert change(night(tmp_path, ROWS, fp8=answer)) is None  # type: ignore[arg-type]


def test_a_baseline_is_tested_by_itself(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, bf16=breaking(ROWS, 0.3), fp8=scored(0.9))
    assert change(run, "bf16") is not None


def test_expected_scores_show_what_greedy_answers_hide(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, fp8=scored(0.9))
    frames = {}
    for name, records in run.records.items():
        sure = [0.9 if name == "bf16" or number < 120 else 0.6 for number in range(len(records))]
        frames[name] = records.assign(expected=[{"score": score} for score in sure])
    assert change(run) is None
    found = change(replace(run, records=frames))
    assert found is not None
    assert found.at_question == 121
    assert "the expected score is 0.90 before and 0.60 from there on" in found.message


def test_a_server_that_gives_other_texts_to_the_same_effect_changes(tmp_path: Path) -> None:
    """As one that was started again without its quantized cache does: right all night, and suddenly word for word."""
    run = night(tmp_path, ROWS, fp8=scored(0.9))
    outputs = [text if number > 100 else f"Well: {text}" for number, text in enumerate(run.records["fp8"]["output"])]
    records = {**run.records, "fp8": run.records["fp8"].assign(output=outputs)}
    found = change(replace(run, records=records))
    assert found is not None
    assert "0% of the answers equal the baseline's before, and 100% from there on" in found.message


def test_a_server_that_stops_answering_in_the_middle_changes(tmp_path: Path) -> None:
    place = {row.sample_id: number for number, row in enumerate(ROWS)}
    good = scored(0.9)
    run = night(
        tmp_path, ROWS,
        fp8=lambda row, rng: ("engine_error", "") if place[row.sample_id] > len(ROWS) * 0.7 else good(row, rng),
    )  # fmt: skip
    found = change(run)
    assert found is not None
    assert "have no answer" in found.message


def test_answers_of_an_earlier_night_say_nothing_about_tonights_server(tmp_path: Path) -> None:
    run = night(tmp_path, ROWS, bf16=breaking(ROWS, 0.3), fp8=scored(0.9))
    assert change(run, "bf16") is not None
    records = run.records["bf16"]
    # Only what was asked before the change was asked tonight.
    later = records["sent_at"].rank() > 0.3 * len(records)
    taken = records.assign(reused_from=[("abc" if one else None) for one in later])
    assert change(replace(run, records={**run.records, "bf16": taken}), "bf16") is None
    alone = records.assign(reused_from="abc")
    assert change(replace(run, records={**run.records, "bf16": alone}), "bf16") is None
