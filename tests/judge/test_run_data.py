"""A run directory that is broken or unfinished is not judged, and the policy is the run's own, changed by flags."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest
from support.judge_command import kveval
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


def test_a_given_margin_of_one_unit_leaves_those_of_others(tmp_path: Path) -> None:
    configured = {"unit_margins": {"probability": 0.01, "entries": 0.03}}
    policy = policy_of(manifest(tmp_path, configured), {"unit_margins": {"entries": 0.02}})
    assert policy == Policy(unit_margins={"probability": 0.01, "entries": 0.02})


def test_a_report_judges_by_it_too(tmp_path: Path) -> None:
    manifest(tmp_path, {"margin": 0.07, "confidence": 0.9})
    assert judge_run(load_run(tmp_path / "run")).policy == Policy(margin=0.07, confidence=0.9)


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"margin": 2}, "judge.margin: 2 is no margin"),
        ({"margins": {"qa": 0}}, "judge.margins.qa: 0 is no margin"),
        ({"margin_relative": 1.5}, "judge.margin_relative: 1.5 is no margin"),
        ({"tiers": {"qa": "optional"}}, "judge.tiers.qa: 'optional' is not allowed; .*blocking.*advisory"),
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
