"""`kveval runs`: its table, its JSON, and what it says of folders that hold no run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Kveval
from support.make_run import BAD, GOOD, make_run, make_samples

from kveval.cli.console import STDOUT


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a folder `runs` of one run that is not judged."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(STDOUT, "_width", 140)
    monkeypatch.setattr(STDOUT, "_height", 40)
    samples = make_samples(lengths=(2048,))
    facts = {"variants": {"int4": {"facts": {"engine_version": "0.32.0", "storage": "emulated"}}}}
    config = {"config": {"model": "/models/llama-8b"}}
    return make_run(Path("runs/night"), samples=samples, answers=GOOD | BAD, manifest=config, **facts).parent


def test_a_run_before_and_after_its_verdict(kveval: Kveval) -> None:
    code, out, err = kveval("runs")
    assert (code, err) == (0, "")
    row = " ".join(next(line for line in out.splitlines() if "night" in line).replace("│", " ").split())
    assert row.startswith("night llama-8b 2026-01-02 complete same not judged 300 ")
    assert out.splitlines()[-1] == "next: kveval gate runs/night"
    kveval("gate", "runs/night")
    out = kveval("runs", "runs")[1]
    assert "same pass" in out
    assert "int4 (emulated) regression" in out
    assert out.splitlines()[-1] == "next: kveval report runs/night"


def test_json(kveval: Kveval) -> None:
    code, out, _ = kveval("runs", "--json")
    (run,) = json.loads(out)
    assert (code, run["name"], run["path"], run["questions"]) == (0, "night", "runs/night", 300)
    assert run["candidates"]["same"] == {"state": None, "reason": "not judged"}
    assert run["emulated"] == ["int4"]


def test_a_foreign_folder_is_a_line(kveval: Kveval, runs: Path) -> None:
    (runs / "[red]photos").mkdir()
    code, out, _ = kveval("runs")
    assert code == 0
    assert "runs/[red]photos: not a run directory (it has no manifest.json)" in out.splitlines()


def test_an_incomplete_run_is_gone_on_with(kveval: Kveval) -> None:
    make_run(Path("runs/to night"), samples=make_samples(lengths=(2048,), haystacks=1), answers=GOOD,
             manifest={"status": "incomplete", "created": "2026-02-02T03:04:05Z"})  # fmt: skip
    assert kveval("runs")[1].splitlines()[-1] == "next: kveval sweep --resume --out 'runs/to night'"


def test_a_run_that_is_broken_as_a_whole_says_so(kveval: Kveval) -> None:
    kveval("gate", "runs/night")
    document = json.loads(Path("runs/night/verdict.json").read_text())
    Path("runs/night/verdict.json").write_text(json.dumps(document | {"verdict": "infrastructure"}))
    assert "run infrastructure" in kveval("runs")[1]


def test_no_runs_yet(kveval: Kveval) -> None:
    Path("empty").mkdir()
    code, out, _ = kveval("runs", "empty")
    assert (code, out) == (0, "empty: holds no run that can be read\nnext: kveval sweep demo\n")
    code, out, err = kveval("runs", "none")
    assert (code, out) == (2, "")
    assert err == "error: none: no such folder; use: a folder that holds runs, such as runs\n"
