"""Answers from the prefix cache beside answers without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cold_runs import SAMPLES, add_cold, make, wrong
from support.make_run import make_record, make_samples

from kveval.errors import RunDirectoryError
from kveval.judge.evidence.cold import ColdComparison, cold_comparisons
from kveval.judge.run_data import load_run
from kveval.report.files.gate import decide
from kveval.run.directory import RunDirectory


def checks(path: Path) -> dict[str, ColdComparison]:
    return {check.variant: check for check in cold_comparisons(load_run(path))}


def test_the_same_answers_are_no_finding(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    add_cold(path, "bf16", {})
    add_cold(path, "fp8", {})
    for check in checks(path).values():
        if check.variant == "bf16-aa":
            continue
        assert (check.asked, check.n, check.identical, check.lost, check.gained) == (20, 20, 20, 0, 0)
        assert check.planned_share == 0.62
        assert check.hit_share == 0.6
        assert check.differences == ()
        assert check.finding is None


def test_a_variant_that_is_better_without_the_cache_is_a_finding(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    broken = wrong(SAMPLES[:20], path)[:7]
    add_cold(path, "bf16", {})
    add_cold(path, "fp8", dict.fromkeys(broken, "correct"))
    found = checks(path)
    assert found["bf16"].finding is None
    check = found["fp8"]
    assert (check.lost, check.gained, check.identical) == (0, 7, 13)
    assert check.baseline is not None
    assert (check.baseline.only_own, check.baseline.only_others) == (7, 0)
    assert check.baseline.p == pytest.approx(0.5**7)
    assert check.finding is not None
    assert (check.finding.level, check.finding.code) == ("warning", "prefix_cache_differs")
    assert (
        "7 of 20 answers flip without the prefix cache (0 right only with it, 7 only without it)"
        in check.finding.message
    )
    difference = check.differences[0]
    assert (difference.warm_outcome, difference.cold_outcome) == ("wrong", "correct")
    assert difference.position == 1


def test_what_the_baseline_does_too_is_no_finding(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    flipping = dict.fromkeys(wrong(SAMPLES[:20], path)[:7], "correct")
    add_cold(path, "bf16", flipping)
    add_cold(path, "fp8", flipping)
    found = checks(path)
    # Neither flips between its two runs, so the baseline's own check stands out, and the candidate's beside A/A.
    assert found["bf16"].finding is not None
    assert "but only 0 of the A/A run's answers" in found["bf16"].finding.message
    assert found["fp8"].baseline is not None
    assert found["fp8"].baseline.p == 1.0


def test_few_flips_are_not_called(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    add_cold(path, "bf16", {})
    add_cold(path, "fp8", dict.fromkeys(wrong(SAMPLES[:20], path)[:3], "correct"))
    assert checks(path)["fp8"].gained == 3
    assert checks(path)["fp8"].finding is None


def test_what_cannot_be_compared_is_counted(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    add_cold(path, "bf16", {SAMPLES[0].sample_id: "engine_error"})
    add_cold(path, "fp8", {}, cached_tokens=512)
    found = checks(path)
    assert (found["bf16"].n, found["bf16"].unanswered) == (19, 1)
    assert (found["fp8"].n, found["fp8"].not_cold) == (0, 20)
    assert found["fp8"].finding is not None
    assert found["fp8"].finding.code == "cold_check_not_cold"


def test_an_answer_to_no_sample_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    stranger = make_samples(lengths=(4096,), haystacks=1, questions=1)[0]
    with RunDirectory(path).locked() as run:
        run.append_cold(make_record(stranger, "fp8", "correct", "x"))
    with pytest.raises(
        RunDirectoryError, match=rf"cold/fp8.jsonl: sample {stranger.sample_id} is not in samples.jsonl"
    ):
        cold_comparisons(load_run(path))


def test_the_gate_notes_it(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    add_cold(path, "bf16", {})
    add_cold(path, "fp8", dict.fromkeys(wrong(SAMPLES[:20], path)[:7], "correct"))
    notes = decide(path, against=None, config=None, overrides={}, out=tmp_path / "ci").document["notes"]
    assert [note["message"].split(" answers")[0] for note in notes if note["code"] == "prefix_cache_differs"] == [
        "fp8: 7 of 20"
    ]
