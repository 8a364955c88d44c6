from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from support.make_run import BAD, GOOD, make_run, make_samples

from kveval.errors import RunDirectoryError
from kveval.report.documents.listing import ListedRun, list_runs
from kveval.report.files.gate import decide

SAMPLES = make_samples(lengths=(2048,), haystacks=4, questions=2)


def run(path: Path, **manifest: Any) -> Path:
    config = {"model": "/models/llama-8b"}
    return make_run(path, answers=GOOD, samples=SAMPLES, manifest={"config": config, **manifest})


def only(folder: Path) -> ListedRun:
    (listed,) = list_runs(folder)
    return listed


def test_newest_first_whatever_the_names(tmp_path: Path) -> None:
    run(tmp_path / "a", created="2026-01-02T03:04:05+00:00")
    run(tmp_path / "b", created="2026-01-03T00:00:00Z")
    run(tmp_path / "c", created="2026-01-03T00:30:00+02:00")
    run(tmp_path / "d", created="some day")
    (tmp_path / "e").mkdir()
    assert [listed.name for listed in list_runs(tmp_path)] == ["b", "c", "a", "d", "e"]


def test_what_a_run_measured(tmp_path: Path) -> None:
    run(tmp_path / "night", status="incomplete")
    listed = only(tmp_path)
    assert (listed.model, listed.status, listed.questions) == ("llama-8b", "incomplete", 8)
    assert (listed.baseline, listed.created, listed.problem) == ("bf16", "2026-01-02T03:04:05Z", None)
    assert listed.size_bytes == sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())


def test_verdicts_are_those_that_the_gate_wrote(tmp_path: Path) -> None:
    many = make_samples(lengths=(2048,))
    make_run(tmp_path / "night", samples=many, answers=GOOD | BAD)
    assert only(tmp_path).candidates["same"].reason == "not judged"
    decision = decide(tmp_path / "night", against=None, config=None, overrides={}, out=None)
    listed = only(tmp_path)
    assert {name: verdict.state for name, verdict in listed.candidates.items()} == {
        "same": "pass", "int4": "regression",
    }  # fmt: skip
    assert listed.verdict.state == decision.gate.state == "regression"


def test_the_worst_check_of_a_candidate_is_its_verdict(tmp_path: Path) -> None:
    document = judged(run(tmp_path / "night"))
    document["checks"] = [{"variant": "same", "verdict": word} for word in ("pass", "regression", "undecided")]
    write(tmp_path / "night", document)
    assert only(tmp_path).candidates["same"].state == "regression"


def judged(path: Path) -> dict[str, Any]:
    decide(path, against=None, config=None, overrides={}, out=None)
    document: dict[str, Any] = json.loads((path / "verdict.json").read_text())
    return document


def write(path: Path, document: Any) -> None:
    (path / "verdict.json").write_text(json.dumps(document))


def test_a_verdict_on_what_the_run_no_longer_is_counts_for_nothing(tmp_path: Path) -> None:
    path = run(tmp_path / "night")
    document = judged(path)
    write(path, document)
    assert only(tmp_path).verdict.state is not None
    for key, value in (("samples", 7), ("status", "incomplete"), ("run_id", "another")):
        write(path, {**document, "run": {**document["run"], key: value}})
        listed = only(tmp_path)
        assert listed.verdict.state is None
        assert listed.candidates["same"].reason == "judged before it changed"
    write(path, document)
    later = time.time() + 60
    os.utime(path / "manifest.json", (later, later))
    assert only(tmp_path).verdict.reason == "judged before it changed"


def test_a_gate_that_could_not_judge_gives_its_reason(tmp_path: Path) -> None:
    path = run(tmp_path / "night")
    write(path, {"verdict": "incomparable", "reason": "other questions", "checks": [], "run": {"path": "night"}})
    listed = only(tmp_path)
    assert (listed.verdict.state, listed.verdict.reason) == ("incomparable", "other questions")
    assert (listed.candidates["same"].state, listed.candidates["same"].reason) == (None, "other questions")


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "3", "{}",
        '{"verdict": [], "checks": [], "run": {}}', '{"verdict": "fine", "checks": [], "run": {}}',
        '{"verdict": "pass", "checks": [{"variant": "same", "verdict": "fine"}], "run": {}}',
        '{"verdict": "pass", "checks": [3], "run": {}}', '{"verdict": "pass", "checks": [], "run": 3}',
        '{"verdict": "pass", "checks": {"a": 1}, "run": {}}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_broken_verdict_is_none(text: str, tmp_path: Path) -> None:
    (run(tmp_path / "night") / "verdict.json").write_text(text)
    assert only(tmp_path).verdict.reason == "verdict.json is not readable"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "not a run directory"), ("{", "not readable as JSON"), ("{}", "Field required"),
        ('{"schema_version": 99}', "newer than this kveval reads"),
    ],
)  # fmt: skip
def test_a_broken_or_foreign_folder_is_a_line(text: str | None, words: str, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    if text is not None:
        (tmp_path / "b" / "manifest.json").write_text(text)
    run(tmp_path / "a")
    (tmp_path / "file").touch()
    (tmp_path / ".hidden").mkdir()
    first, last = list_runs(tmp_path)
    assert (first.name, first.problem) == ("a", None)
    assert words in str(last.problem)
    assert str(tmp_path) not in str(last.problem)


def test_a_run_itself_is_the_only_line(tmp_path: Path) -> None:
    assert only(run(tmp_path / "night")).name == "night"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="none: no such folder; use: "):
        list_runs(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="Not a directory"):
        list_runs(tmp_path / "file")


def test_a_model_that_is_no_path_has_no_name(tmp_path: Path) -> None:
    run(tmp_path / "a", config={"model": {"path": "x"}})
    assert only(tmp_path).model is None
