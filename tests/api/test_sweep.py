"""`kveval.sweep` and its siblings as a notebook calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.commands import answer_sweeps
from support.scripted import ScriptedEngines

import kveval
from kveval.api.sweep import SweepResult
from kveval.errors import ResumeError, RunDirectoryError
from kveval.judge.trust.problem import Problem


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngines:
    return answer_sweeps(monkeypatch)


def test_a_sweep_returns_where_its_run_is(keys: dict[str, Any], engines: ScriptedEngines) -> None:
    result = kveval.sweep(keys, out="run", progress=False)
    assert result.problem is None
    assert result.report.is_file()
    assert set(kveval.load_run(result.path).records) == {"bf16", "fp8"}


def test_a_sweep_in_a_notebook_whose_loop_runs_already(keys: dict[str, Any], engines: ScriptedEngines) -> None:
    import asyncio

    async def cell() -> SweepResult:
        return kveval.sweep(keys, out="run", progress=False)

    assert asyncio.run(cell()).problem is None


def test_without_progress_nothing_is_printed(
    keys: dict[str, Any], engines: ScriptedEngines, capsys: pytest.CaptureFixture[str]
) -> None:
    kveval.sweep(keys, out="run", progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_variant_that_fails_is_told_and_the_others_are_measured(
    keys: dict[str, Any], engines: ScriptedEngines
) -> None:
    engines.fail_to_start["fp8"] = (1, "fp8: out of luck")
    result = kveval.sweep(keys, out="run", progress=False)
    assert "fp8 failed: fp8: out of luck" in str(result.problem)
    assert len(kveval.load_run(result.path).records["bf16"]) == 4


def test_a_complete_run_whose_answers_cannot_be_judged_is_a_problem(
    keys: dict[str, Any], engines: ScriptedEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = (Problem("fp8", "answers_change", "fp8: answers change at question 3"),)
    monkeypatch.setattr("kveval.judge.comparison.judgement.find_problems", lambda *_: found)
    result = kveval.sweep(keys, out="run", progress=False)
    assert {one.status for one in kveval.load_run(result.path).manifest.variants.values()} == {"complete"}
    assert "fp8: answers change at question 3" in str(result.problem)


def test_a_run_goes_on_where_it_stopped(keys: dict[str, Any], engines: ScriptedEngines) -> None:
    path = kveval.sweep(keys, out="run", progress=False).path
    before = engines.requests()
    assert kveval.sweep(keys, out=path, resume=True, progress=False).problem is None
    assert engines.requests() == before
    with pytest.raises(RunDirectoryError, match="holds a run already"):
        kveval.sweep(keys, out=path, progress=False)


def test_a_plan_says_that_its_folder_is_taken(keys: dict[str, Any], tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    assert not any("nothing could be measured" in note for note in kveval.plan_sweep(keys, out=taken)["notes"])
    taken.write_text("a file")
    assert any(f"--out {taken}: is a file" in note for note in kveval.plan_sweep(keys, out=taken)["notes"])


def test_a_finished_run_gets_more_samples_and_no_fewer(keys: dict[str, Any], engines: ScriptedEngines) -> None:
    first = kveval.load_run(kveval.sweep(keys, out="run", progress=False).path)
    more = keys | {"samples": 2 * keys["samples"]}
    plan = kveval.plan_sweep(more, out="run", resume=True)
    assert any(note.startswith("samples are added: ") for note in plan["notes"])
    engines.servers.clear()
    result = kveval.sweep(more, out="run", resume=True, progress=False)
    assert result.problem is None
    assert set(first.samples.index) < set(kveval.load_run(result.path).samples.index)
    with pytest.raises(ResumeError, match="but a run keeps the samples it has"):
        kveval.sweep(keys, out="run", resume=True, progress=False)


def test_a_night_takes_the_answers_of_an_earlier_one(keys: dict[str, Any], engines: ScriptedEngines) -> None:
    night = keys | {"samples": 12, "questions_per_haystack": 2, "baseline_from": "runs", "stop": "never"}
    first = kveval.sweep(night, out="runs/monday", progress=False)
    asked = engines.requests()
    engines.servers.clear()
    second = kveval.sweep(night, out="runs/tuesday", progress=False)
    assert second.problem is None
    for name in ("bf16", "fp8"):
        reuse = second.summary["variants"][name]["reuse"]
        assert (reuse["run_id"], reuse["answers"], reuse["refusal"]) == (first.summary["run_id"], 8, None)
    assert engines.requests() < asked
    assert "answers are taken from" in second.report.read_text()
    assert any(note.startswith("answers are taken from") for note in kveval.plan_sweep(night)["notes"])
