from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import Answer, make_run, make_samples, scored

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sentences import proven_safe, what_decides


def lengths(path: Path, haystacks: int, candidate: Answer) -> list[Comparison]:
    samples = make_samples(haystacks=haystacks)
    run = load_run(make_run(path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": candidate}))
    return judge_run(run).of("fp8", "length")


@pytest.mark.parametrize(
    ("haystacks", "share", "text"),
    [(40, 0.9, "8K, the longest asked"), (40, 0.5, "nothing yet (2K fails)"), (4, 0.9, "nothing yet (2K undecided)")],
)
def test_the_longest_context_proven_safe(tmp_path: Path, haystacks: int, share: float, text: str) -> None:
    assert proven_safe(lengths(tmp_path, haystacks, scored(share))) == text


def test_nothing_asked_proves_nothing() -> None:
    assert proven_safe([]) == "no context length was asked"


def test_only_undecided_rows_need_more(tmp_path: Path) -> None:
    rows = lengths(tmp_path, 4, scored(0.9))
    assert [entry.partition(": about ")[0] for entry in what_decides(rows)] == ["at 2K", "at 8K"]
    assert what_decides([]) == []
