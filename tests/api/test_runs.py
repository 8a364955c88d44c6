"""Reading, judging and showing runs from Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import BAD, GOOD, make_run, make_samples

import kveval
from kveval.errors import ConfigError, RunDirectoryError
from kveval.report.files.gate import bless_run


def test_a_path_may_be_text(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=GOOD)
    assert set(kveval.load_run(str(path)).records) == {"bf16", "same"}
    assert kveval.gate(str(path)).state == "pass"


def test_keys_of_the_policy_are_keywords(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=BAD)
    assert (kveval.gate(path).state, kveval.gate(path).exit_code) == ("regression", 1)
    assert kveval.gate(path, margin=0.5).state == "pass"
    with pytest.raises(ConfigError, match=r"unknown key 'judge\.margn'; did you mean 'margin'"):
        kveval.gate(path, margn=0.5)


def test_a_run_is_held_against_a_blessed_one(tmp_path: Path) -> None:
    path, blessed = make_run(tmp_path / "run", answers=GOOD), tmp_path / "blessed.json"
    bless_run(path, blessed)
    assert {check.kind for check in kveval.gate(path, against=str(blessed)).checks} >= {"quantization", "blessed"}


def test_two_variants_are_compared(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=BAD)
    (pair,) = kveval.diff(f"{path}:bf16", f"{path}:int4")["pairs"]
    assert pair["rows"][0]["lost"] > 0


def test_without_a_candidate_that_passes_the_baseline_stays(tmp_path: Path) -> None:
    assert kveval.recommend(make_run(tmp_path / "run", answers=BAD)).chosen is None


def test_a_report_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=make_samples(haystacks=2), answers=GOOD)
    assert kveval.build_report(path) == path / "report.html"
    assert kveval.build_report(path, str(tmp_path / "page.html")).is_file()


def test_no_run_is_an_error_and_no_empty_result(tmp_path: Path) -> None:
    for function in (kveval.load_run, kveval.gate, kveval.build_report, kveval.recommend):
        with pytest.raises(RunDirectoryError, match="not a run directory"):
            function(tmp_path)
