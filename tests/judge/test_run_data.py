"""A run directory that is broken or unfinished is not judged, and the policy is the run's own, changed by flags."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.judge_command import document, kveval
from support.make_run import GOOD, make_run, make_samples, scored

from kveval.config.judge import Policy
from kveval.errors import ConfigError, RunDirectoryError
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.run_data import load_run, policy_of
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest


def judge(path: Path) -> Judgement:
    return judge_run(load_run(path))


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        load_run(tmp_path)


def test_other_samples_than_the_manifest_says(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(1)})
    with RunDirectory(path).locked() as run:
        run.write_samples(make_samples(haystacks=2))
    with pytest.raises(RunDirectoryError, match="holds 40 samples that are not the 600 of the manifest"):
        load_run(path)


def test_records_of_unknown_samples(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=make_samples(haystacks=2), answers={"bf16": scored(1)})
    other = make_run(tmp_path / "other", samples=make_samples(haystacks=3), answers={"bf16": scored(1)})
    RunDirectory(path).records_path("bf16").write_bytes(RunDirectory(other).records_path("bf16").read_bytes())
    with pytest.raises(RunDirectoryError, match=r"is not in samples\.jsonl"):
        load_run(path)


def test_a_torn_last_line_is_a_missing_sample(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)})
    records = RunDirectory(path).records_path("fp8")
    records.write_bytes(records.read_bytes()[:-20])
    assert judge(path).of("fp8", "overall")[0].outcomes["candidate"]["missing"] == 1


def test_a_run_stopped_before_its_samples_were_written(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(1), "fp8": scored(1)}, manifest={"status": "running"})
    RunDirectory(path).samples_path.unlink()
    for variant in ("bf16", "fp8"):
        RunDirectory(path).records_path(variant).unlink()
    assert [h.word for h in headlines(judge(path))] == ["undecided"]


def manifest(tmp_path: Path, judge: Any) -> Manifest:
    config = {} if judge is None else {"judge": judge}
    return load_run(make_run(tmp_path / "run", answers={"bf16": scored(1)}, manifest={"config": config})).manifest


def test_without_a_configuration_it_is_the_default(tmp_path: Path) -> None:
    assert policy_of(manifest(tmp_path, None)) == Policy()


def test_given_keys_replace_configured_ones_and_margins_add_up(tmp_path: Path) -> None:
    configured = {"margin": 0.05, "margins": {"needle": 0.01, "qa": 0.03}, "inconclusive": "allow"}
    policy = policy_of(manifest(tmp_path, configured), {"margin": 0.04, "margins": {"qa": 0.02}})
    assert policy == Policy(margin=0.04, margins={"needle": 0.01, "qa": 0.02}, undecided="allow")


def test_a_report_judges_by_it_too(tmp_path: Path) -> None:
    manifest(tmp_path, {"margin": 0.07, "confidence": 0.9})
    assert judge_run(load_run(tmp_path / "run")).policy == Policy(margin=0.07, confidence=0.9)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"margin": 2}, "judge.margin: 2 is not allowed"),
        ({"margins": {"qa": 0}}, "judge.margins.qa: 0 is not allowed"),
        ({"margn": 0.1}, "did you mean 'margin'"),
        ([], None),
        ("strict", "not a mapping"),
    ],
)
def test_what_is_no_policy(tmp_path: Path, judge: Any, message: str | None) -> None:
    if message is None:
        assert policy_of(manifest(tmp_path, judge)) == Policy()
        return
    with pytest.raises(ConfigError, match=message):
        policy_of(manifest(tmp_path, judge))


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
