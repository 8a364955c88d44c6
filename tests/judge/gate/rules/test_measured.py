"""The rule that checks the baseline and the controls."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import document, kveval
from support.make_run import UNFINISHED, scored, unfinished
from support.nights import asked_in_turn, breaking, night


@pytest.mark.parametrize("status", UNFINISHED)
def test_a_second_run_that_did_not_complete(tmp_path: Path, status: str) -> None:
    result = kveval("gate", unfinished(tmp_path, "bf16-aa", status), "--undecided", "allow")
    assert result.code == 3
    assert "out of memory" in result.text


@pytest.mark.parametrize("broken", ["bf16", "bf16-aa"])
def test_a_server_that_changed_is_a_check_of_its_own(tmp_path: Path, broken: str) -> None:
    rows = asked_in_turn()
    answers = {"bf16_aa": scored(0.9), "fp8": scored(0.9), broken.replace("-", "_"): breaking(rows, 0.3)}
    path = night(tmp_path, rows, **answers).path
    assert kveval("gate", path).code == 3
    assert ("trust", broken) in {(check["kind"], check["variant"]) for check in document(path)["checks"]}
