"""A run directory that is broken is not loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.errors import RunDirectoryError
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.run_data import load_run
from kveval.run.directory import RunDirectory


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
