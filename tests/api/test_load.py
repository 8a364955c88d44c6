"""`kveval.measure_load` as a notebook calls it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.commands import answer_loads
from support.loads import words
from support.scripted import ScriptedEngines, always

import kveval
from kveval.errors import RunDirectoryError
from kveval.run.load_results import read_load

LOAD = {
    "requests": 3, "output_tokens": 5, "prompt_lengths": [64], "concurrency": [2], "warmup_requests": 1,
    "longest_context": False,
}  # fmt: skip


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngines:
    return answer_loads(monkeypatch, ScriptedEngines(always(words())))


def test_what_is_returned_is_what_is_stored(keys: dict[str, Any], engines: ScriptedEngines, tmp_path: Path) -> None:
    result = kveval.measure_load(keys, out="run", load=LOAD, progress=False)
    assert result.document == read_load(tmp_path / "run")
    assert [row["completed"] for row in result.summary["rows"]] == [4, 4]
    # Without a sweep there is nothing to report.
    assert (result.problem, result.report) == (None, None)


def test_a_status_is_printed_once_and_only_if_wanted(
    keys: dict[str, Any], engines: ScriptedEngines, capsys: pytest.CaptureFixture[str]
) -> None:
    kveval.measure_load(keys, out="quiet", load=LOAD, progress=False)
    assert capsys.readouterr() == ("", "")
    kveval.measure_load(keys, out="run", load=LOAD)
    said = capsys.readouterr().err.splitlines()
    assert any("load 1 of 1: closed 2, 64 tokens" in line for line in said)
    assert all(line != after for line, after in pairwise(said))


def test_a_variant_that_fails_is_told_and_its_folder_is_taken(keys: dict[str, Any], engines: ScriptedEngines) -> None:
    engines.fail_to_start["fp8"] = (1, "fp8: out of luck")
    result = kveval.measure_load(keys, out="run", load=LOAD, progress=False)
    assert "fp8 failed: fp8: out of luck" in str(result.problem)
    assert result.document.variants["bf16"].status == "complete"
    with pytest.raises(RunDirectoryError, match=r"holds load\.json already"):
        kveval.measure_load(keys, out="run", load=LOAD, progress=False)


def test_a_plan_starts_nothing(keys: dict[str, Any], engines: ScriptedEngines) -> None:
    assert kveval.plan_load(keys, load=LOAD)["requests"] == 2 * (4 + 1)
    assert engines.launches == []
