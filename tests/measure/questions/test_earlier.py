"""What earlier runs of a model say about the number of questions per haystack."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from support.make_run import make_run, scored

from kveval.measure.questions.earlier import EarlierRun, config_sha256, newest_costs, runs_of_model
from kveval.run.directory import RunDirectory


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def made(path: Path, **manifest: Any) -> Path:
    inputs = {"model/config.json": hashlib.sha256(b"{}").hexdigest()}
    return make_run(path, answers={"bf16": scored(0.9)}, manifest={"inputs": inputs} | manifest)


def test_the_runs_of_a_model_come_newest_first(tmp_path: Path, model: Path) -> None:
    for name, year in (("old", 2024), ("new", 2026), ("mid", 2025)):
        made(tmp_path / "runs" / name, created=f"{year}-01-02T03:04:05Z")
    made(tmp_path / "runs" / "other", inputs={"model/config.json": "another"})
    made(tmp_path / "runs" / "unfinished", status="running")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "manifest.json").write_text("{")
    found = runs_of_model(tmp_path / "runs", model, without=tmp_path / "runs" / "mid")
    assert [one.run.path.name for one in found] == ["new", "old"]
    assert [one.run.path.name for one in runs_of_model(tmp_path / "runs" / "old", model, without=None)] == ["old"]


def test_without_a_folder_or_a_model_there_are_none(tmp_path: Path, model: Path) -> None:
    assert runs_of_model(None, model, without=None) == []
    assert config_sha256(tmp_path / "nowhere") is None
    assert runs_of_model(tmp_path, tmp_path / "nowhere", without=None) == []


@pytest.mark.parametrize(
    ("config", "number"),
    [
        ({"questions_per_haystack": 7, "context_lengths": [512], "tasks": [{"name": "a"}]}, 7),
        ({"questions_per_haystack": 7, "context_lengths": [512],
          "tasks": [{"name": "a", "questions_per_haystack": 3}]}, 3),
        ({"questions_per_haystack": 7, "tasks": [{"name": "a", "context_lengths": [512]}]}, 7),
        ({"questions_per_haystack": 7, "context_lengths": [1024], "tasks": [{"name": "a"}]}, None),
        ({"questions_per_haystack": 7, "context_lengths": [512], "tasks": [{"name": "b"}]}, None),
        ({"questions_per_haystack": "auto", "context_lengths": [512], "tasks": [{"name": "a"}]}, None),
    ],
)  # fmt: skip
def test_the_number_of_a_cell(tmp_path: Path, config: dict[str, Any], number: int | None) -> None:
    run = RunDirectory(made(tmp_path / "run", config=config))
    assert EarlierRun(run, run.read_manifest()).questions("a", 512) == number


def test_a_number_that_was_chosen_goes_before_the_configuration(tmp_path: Path) -> None:
    chosen = {"task": "a", "context_length": 512, "samples": 60, "questions": 9, "because": "of its costs"}
    run = RunDirectory(made(tmp_path / "run", questions_per_haystack=[chosen]))
    assert EarlierRun(run, run.read_manifest()).questions("a", 512) == 9


def test_runs_that_do_not_say_what_a_prefill_cost(tmp_path: Path, model: Path) -> None:
    made(tmp_path / "runs" / "a")
    assert newest_costs(runs_of_model(tmp_path / "runs", model, without=None)) == ({}, None)
