"""A judged run leaves its files, and nothing of an older verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.judge_command import document, kveval
from support.make_run import BAD, GOOD, make_run, make_samples

from kveval.run.directory import RunDirectory


@pytest.mark.parametrize("part", ["gate", "verdict", "junit", "markdown"])
def test_a_crash_is_not_called_a_regression_and_leaves_no_older_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    path = make_run(tmp_path / "run", samples=make_samples(haystacks=2, lengths=(2048,)), answers=GOOD)
    kveval("gate", path)
    assert document(path)["verdict"] != "infrastructure"

    def crash(*_: Any, **__: Any) -> None:
        raise TypeError("oops")

    monkeypatch.setattr(f"kveval.report.files.gate.{part}", crash)
    result = kveval("gate", path)
    assert result.code == 70
    assert "kveval itself failed: TypeError: oops" in result.text
    assert document(path)["verdict"] == "infrastructure"


def test_a_broken_run_is_not_blessed(tmp_path: Path) -> None:
    stopped = make_run(tmp_path / "stopped", answers=GOOD, variants={"same": {"status": "stopped"}})
    assert kveval("bless", stopped, "--out", tmp_path / "b.json").code == 3
    assert kveval("bless", tmp_path / "nowhere", "--out", tmp_path / "b.json").code == 2
    good = make_run(tmp_path / "good", answers=GOOD)
    assert kveval("bless", good, "--out", tmp_path).code == 2
    assert not (tmp_path / "b.json").exists()


def test_a_failing_run_may_be_blessed_and_says_so(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=BAD)
    result = kveval("bless", path, "--out", tmp_path / "b.json")
    assert result.code == 0
    assert "the gate calls this run: regression" in result.text


def truncated_manifest(path: Path) -> None:
    manifest = RunDirectory(path).manifest_path
    manifest.write_bytes(manifest.read_bytes()[:-100])


def newer_schema(path: Path) -> None:
    manifest = RunDirectory(path).manifest_path
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**data, "schema_version": 99}))


def torn_record(path: Path) -> None:
    records = RunDirectory(path).records_path("same")
    records.write_bytes(records.read_bytes()[:-20])


def broken_line(path: Path) -> None:
    records = RunDirectory(path).records_path("same")
    lines = records.read_bytes().split(b"\n")
    lines[3] = lines[3][:40]
    records.write_bytes(b"\n".join(lines))


def no_records(path: Path) -> None:
    RunDirectory(path).records_path("same").unlink()


def no_samples_file(path: Path) -> None:
    RunDirectory(path).samples_path.unlink()


def cut_samples(path: Path) -> None:
    samples = RunDirectory(path).samples_path
    samples.write_bytes(b"\n".join(samples.read_bytes().split(b"\n")[:-2]) + b"\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncated_manifest, "not readable as JSON"),
        (newer_schema, "schema_version 99 is newer"),
        (torn_record, "1 of its 600 records are missing"),
        (broken_line, "same.jsonl:4:"),
        (no_records, "600 of its 600 records are missing"),
        (no_samples_file, "samples.jsonl: is missing; `kveval sweep --resume` writes it again"),
        (cut_samples, "samples that are not the 600 of the manifest"),
    ],
)
def test_a_broken_file_is_named_and_leaves_no_older_verdict(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    path = make_run(tmp_path / "run", answers=GOOD)
    assert kveval("gate", path).code == 0
    damage(path)
    result = kveval("gate", path)
    assert result.code == 2
    assert message in result.text
    assert document(path)["verdict"] == "usage"
    assert message in document(path)["reason"]
    assert "<error" in (path / "junit.xml").read_text()
    assert "Nothing was judged" in (path / "summary.md").read_text()


def test_a_folder_that_does_not_exist_stays_that_way(tmp_path: Path) -> None:
    result = kveval("gate", tmp_path / "nowhere")
    assert result.code == 2
    assert "not a run directory" in result.text
    assert not (tmp_path / "nowhere").exists()
    assert kveval("gate", tmp_path / "nowhere", "--out", tmp_path / "ci").code == 2
    assert document(tmp_path / "ci")["verdict"] == "usage"


def test_nothing_is_written_into_a_folder_that_holds_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert kveval("gate", tmp_path).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
