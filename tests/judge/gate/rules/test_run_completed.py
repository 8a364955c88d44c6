"""The rule that checks that the run and its baseline completed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import kveval
from support.make_run import GOOD, UNFINISHED, make_run, unfinished


@pytest.mark.parametrize("status", UNFINISHED)
def test_a_baseline_that_did_not_complete(tmp_path: Path, status: str) -> None:
    result = kveval("gate", unfinished(tmp_path, "bf16", status), "--undecided", "allow")
    assert result.code == 3
    assert "out of memory" in result.text


def test_a_run_that_was_killed(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=GOOD, manifest={"status": "running", "finished": None})
    result = kveval("gate", path)
    assert result.code == 3
    assert "cut short" in result.text
