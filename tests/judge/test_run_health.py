"""Runs that cannot be judged are named, and never pass."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.judge_command import document, kveval
from support.make_run import GOOD, make_run

from kveval.run.directory import RunDirectory


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


def test_a_run_that_is_still_written_is_not_judged(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=GOOD)
    with (path / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = kveval("gate", path)
    assert result.code == 2
    assert "a sweep is still writing here" in result.text


def test_a_run_without_samples_is_not_judged(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=[], answers=GOOD)
    result = kveval("gate", path)
    assert result.code == 2
    assert "holds no samples" in result.text


def test_a_folder_that_does_not_exist_stays_that_way(tmp_path: Path) -> None:
    result = kveval("gate", tmp_path / "nowhere")
    assert result.code == 2
    assert "not a run directory" in result.text
    assert not (tmp_path / "nowhere").exists()
    assert kveval("gate", tmp_path / "nowhere", "--out", tmp_path / "ci").code == 2
    assert document(tmp_path / "ci")["verdict"] == "usage"
