from __future__ import annotations

from pathlib import Path

import numpy as np
from support.make_run import Answer, make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sections.answer.section import Conclusion, conclusions
from kveval.run.records import Outcome, SampleRow


def worse_at(length: int, task: str, share: float) -> Answer:
    good, bad = scored(0.9), scored(share)

    def answer(row: SampleRow, generator: np.random.Generator) -> tuple[Outcome, str] | None:
        return (bad if (row.context_length, row.task) == (length, task) else good)(row, generator)

    return answer


def conclusion_of(path: Path, candidate: Answer, **variant: object) -> Conclusion:
    samples = make_samples(tasks={"needles": "needle", "calls": "tools"}, haystacks=200, questions=1)
    run = make_run(path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": candidate},
                   variants={"fp8": variant})  # fmt: skip
    loaded = load_run(run)
    return conclusions(loaded, judge_run(loaded))[0]


def test_a_fail_says_up_to_where_it_passes_and_where_it_fails(tmp_path: Path) -> None:
    conclusion = conclusion_of(tmp_path, worse_at(8192, "calls", 0.6))
    assert conclusion.headline.word == "fail"
    assert conclusion.sentence.startswith("pass up to 2K; fails at 8K (most on calls, -")
    assert "95% interval -" in conclusion.sentence
    assert "400 questions about 400 contexts" in conclusion.sentence
    assert conclusion.proven_safe == "2K (8K fails)"


def test_a_pass_at_every_length(tmp_path: Path) -> None:
    conclusion = conclusion_of(tmp_path, scored(0.9))
    assert conclusion.sentence == "pass up to 8K: a loss of more than 2.0 points is excluded at 95%."
    assert conclusion.proven_safe == "8K, the longest asked"
    assert conclusion.settling is None
    assert conclusion.memory == "fits 1.00x the tokens (100,000 vs 100,000)"


def test_an_undecided_verdict_says_what_would_decide_it(tmp_path: Path) -> None:
    conclusion = conclusion_of(tmp_path, scored(0.89))
    assert conclusion.sentence.startswith("-")
    assert "questions about 800 contexts; overall: " in conclusion.sentence
    assert conclusion.settling is not None
    assert "more questions" in conclusion.settling
    assert "kveval sweep --resume --out " in conclusion.settling


def test_labels_say_what_to_know_before_the_numbers(tmp_path: Path) -> None:
    facts = {"storage": "native", "scales": "1.0", "attention_backend": "FLASHINFER"}
    conclusion = conclusion_of(tmp_path, scored(0.9), facts=facts, status="stopped", reason="killed")
    assert conclusion.labels[:2] == ["stopped, not complete", "scales not calibrated"]
    assert conclusion.proven_safe == "nothing yet (2K undecided)"
    assert conclusion.memory == "not known: the engine does not say what its cache holds"
