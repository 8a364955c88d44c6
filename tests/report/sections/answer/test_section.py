from __future__ import annotations

from pathlib import Path

import numpy as np
from support.make_run import Answer, make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sections.answer.section import Answer as Answered
from kveval.report.sections.answer.section import answers
from kveval.run.records import Outcome
from kveval.run.samples import SampleRow


def worse_at(length: int, task: str, share: float) -> Answer:
    good, bad = scored(0.9), scored(share)

    def answer(row: SampleRow, generator: np.random.Generator) -> tuple[Outcome, str] | None:
        return (bad if (row.context_length, row.task) == (length, task) else good)(row, generator)

    return answer


def answers_of(path: Path, candidate: Answer, **variant: object) -> Answered:
    samples = make_samples(tasks={"needles": "needle", "calls": "tools"}, haystacks=40, questions=5)
    run = make_run(path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": candidate},
                   variants={"fp8": variant})  # fmt: skip
    loaded = load_run(run)
    return answers(loaded, judge_run(loaded))[0]


def test_where_it_holds_and_where_it_fails(tmp_path: Path) -> None:
    answer = answers_of(tmp_path, worse_at(8192, "calls", 0.6))
    assert answer.headline.word == "fail"
    assert answer.sentence.startswith("pass up to 2K; fails at 8K (most on calls, -")
    assert "95% interval -" in answer.sentence
    assert "400 samples in 80 haystacks" in answer.sentence
    assert answer.held == "2K: 8K fails"


def test_all_is_well(tmp_path: Path) -> None:
    answer = answers_of(tmp_path, scored(0.9))
    assert answer.sentence == "pass up to 8K: a loss of more than 2.0 points is excluded at 95%."
    assert answer.held == "8K, the longest asked"
    assert answer.settle == []
    assert answer.memory == "1.00 times the baseline's tokens in the same memory: 100,000 against 100,000"


def test_open_says_what_would_settle_it(tmp_path: Path) -> None:
    answer = answers_of(tmp_path, scored(0.89))
    assert answer.sentence.startswith("not settled: -")
    assert any("more samples" in entry for entry in answer.settle)


def test_what_a_reader_must_not_miss(tmp_path: Path) -> None:
    facts = {"storage": "native", "scales": "1.0", "attention_backend": "FLASHINFER"}
    answer = answers_of(tmp_path, scored(0.9), facts=facts, status="stopped", reason="killed")
    assert answer.labels[:2] == ["stopped, not complete", "scales not calibrated"]
    assert answer.held == "none: 2K is open"
    assert answer.memory == "not known: the engine does not say what its cache holds"
