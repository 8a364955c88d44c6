"""The rule that checks the score of the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import kveval
from support.make_run import GOOD, make_run, make_samples


@pytest.mark.parametrize(("least", "code"), [("0.5", 0), ("0.92", 5), ("0.99", 1)])
def test_the_baseline_itself_must_score(tmp_path: Path, least: str, code: int) -> None:
    samples = make_samples(haystacks=400, questions=1)
    path = make_run(tmp_path / "run", samples=samples, answers=GOOD)
    assert kveval("gate", path, "--min-baseline-score", least).code == code
