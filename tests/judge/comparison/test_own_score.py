from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.own_score import kinds_of, own_score, temperature_of
from kveval.judge.comparison.scope import Scope
from kveval.judge.run_data import load_run


def test_own_scores_are_of_one_kind(tmp_path: Path) -> None:
    samples = make_samples(haystacks=8, questions=5, lengths=(2048,))
    expected = {"bf16": lambda _: 0.5, "fp8": lambda row: None if row is samples[0] else 0.4}
    run = load_run(make_run(tmp_path / "run", samples=samples, answers=dict.fromkeys(expected, scored(0.5)),
                            expected=expected))  # fmt: skip
    assert kinds_of(run) == ("greedy", "probability")
    assert temperature_of(run) == 1.0
    found = own_score(run, "fp8", Scope("overall"), confidence=0.95, kind="probability")
    assert (found.n, found.mean) == (39, pytest.approx(0.4))
    assert own_score(run, "fp8", Scope("overall"), confidence=0.95, kind="entries").mean is None
    assert own_score(run, "fp8", Scope("overall"), confidence=0.95).n == 40


def test_an_expected_score_of_other_texts_than_the_baselines_does_not_count(tmp_path: Path) -> None:
    samples = make_samples(haystacks=8, questions=5, lengths=(2048,))
    names = ("bf16", "fp8")
    run = load_run(make_run(tmp_path / "run", samples=samples, answers=dict.fromkeys(names, scored(0.5)),
                            expected=dict.fromkeys(names, lambda _: 0.5)))  # fmt: skip
    first, *others = run.records["fp8"]["expected"]
    fp8 = run.records["fp8"].assign(expected=[{**first, "token_ids": [[1]]}, *others])
    run = replace(run, records={**run.records, "fp8": fp8})
    assert own_score(run, "fp8", Scope("overall"), confidence=0.95, kind="probability").n == 39
