"""The rule that checks that the controls completed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import kveval
from support.make_run import UNFINISHED, unfinished


@pytest.mark.parametrize("status", UNFINISHED)
def test_a_second_run_that_did_not_complete(tmp_path: Path, status: str) -> None:
    result = kveval("gate", unfinished(tmp_path, "bf16-aa", status), "--undecided", "allow")
    assert result.code == 3
    assert "out of memory" in result.text
