"""Answers from the prefix cache beside answers without it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from support.make_run import make_record, make_run, make_samples, scored

from kveval.errors import RunDirectoryError
from kveval.judge.evidence.cold import ColdComparison, cold_comparisons
from kveval.judge.run_data import load_run
from kveval.report.documents.summary import summary
from kveval.report.files.gate import decide
from kveval.report.html.report import build_report
from kveval.report.terminal.summary import summary_table
from kveval.run.directory import RunDirectory
from kveval.run.records import Outcome, SampleRow

SAMPLES = make_samples(lengths=(2048,), haystacks=4, questions=10)
COUNTERS = {"prefix_cache_hits": 60.0, "prefix_cache_queries": 100.0}


def add_cold(path: Path, variant: str, outcomes: dict[str, Outcome], *, cached_tokens: int = 0) -> None:
    """Cold answers of the first samples: as the first time unless `outcomes` says otherwise."""
    warm = {record.sample_id: record for record in RunDirectory(path).records(variant)}
    with RunDirectory(path).locked() as run:
        for row in SAMPLES[:20]:
            outcome = outcomes.get(row.sample_id, warm[row.sample_id].outcome)
            output = row.doc["answers"][0] if outcome == "correct" else "something else"
            record = make_record(row, variant, outcome, output)
            run.append_cold(record.model_copy(update={"cached_tokens": cached_tokens}))


def make(path: Path) -> Path:
    variants = {
        "bf16": {"counters": COUNTERS, "planned_hit_tokens": 62},
        "bf16-aa": {"role": "aa", "of": "bf16"},
        "fp8": {"counters": COUNTERS, "planned_hit_tokens": 62},
    }
    answers = dict.fromkeys(variants, scored(0.5))
    return make_run(path, answers=answers, samples=SAMPLES, variants=variants)


def checks(path: Path) -> dict[str, ColdComparison]:
    return {check.variant: check for check in cold_comparisons(load_run(path))}


def wrong(rows: list[SampleRow], path: Path, variant: str = "fp8") -> list[str]:
    records = {record.sample_id: record.outcome for record in RunDirectory(path).records(variant)}
    return [row.sample_id for row in rows if records[row.sample_id] == "wrong"]


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


def test_a_run_without_a_check_shows_none(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.5), "fp8": scored(0.5)}, samples=SAMPLES)
    assert cold_comparisons(load_run(path)) == []
    assert summary(path)["prefix_cache"] == []
    assert "With and without the prefix cache" not in build_report(path).read_text()


def test_the_gate_notes_it(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    add_cold(path, "bf16", {})
    add_cold(path, "fp8", dict.fromkeys(wrong(SAMPLES[:20], path)[:7], "correct"))
    notes = decide(path, against=None, config=None, overrides={}, out=tmp_path / "ci").document["notes"]
    assert [note["message"].split(" answers")[0] for note in notes if note["code"] == "prefix_cache_differs"] == [
        "fp8: 7 of 20"
    ]


def test_report_and_terminal_show_it(tmp_path: Path) -> None:
    path = make(tmp_path / "run")
    add_cold(path, "bf16", {})
    add_cold(path, "fp8", dict.fromkeys(wrong(SAMPLES[:20], path)[:7], "correct"))
    page = build_report(path).read_text()
    assert "With and without the prefix cache" in page
    assert "7 of 20 answers flip without the prefix cache" in page
    assert "7 outputs differ without the prefix cache" in page
    assert "<td>correct: value-" in page
    console = Console(file=io.StringIO(), width=200)
    console.print(summary_table(path))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "fp8: 60% of prompt tokens from the prefix cache, planned 62%; asked again without it: 13 of 20 outputs" in text
    )
    assert "warning: 7 of 20 answers flip" in text
