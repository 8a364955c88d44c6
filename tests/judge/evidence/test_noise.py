"""What turns right or wrong when the baseline is asked twice."""

from __future__ import annotations

from pathlib import Path

from support.make_run import failing, make_samples, scored
from support.nights import night

from kveval.judge.evidence.noise import aa_flips


def test_answers_that_both_runs_gave_flip_or_not(tmp_path: Path) -> None:
    rows = make_samples(haystacks=10, questions=10)
    run = night(tmp_path, rows, bf16_aa=failing(0.1))
    flips = aa_flips(run)
    assert flips is not None
    assert 0.8 * len(rows) < len(flips) < len(rows)
    assert not flips.any()
    other = aa_flips(night(tmp_path / "other", rows, bf16_aa=scored(0.5)))
    assert other is not None
    assert 0.3 < other.mean() < 0.5


def test_without_a_second_run_nothing_is_known(tmp_path: Path) -> None:
    assert aa_flips(night(tmp_path, make_samples(haystacks=2), fp8=scored(0.9))) is None
