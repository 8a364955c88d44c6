"""The variance of a prediction comes from earlier runs of the same model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.judgement import losing
from support.make_run import make_run, scored

from kveval.judge.prediction.variance import default_spread, earlier_spreads

SAME = {"inputs": {"model/config.json": "abc"}}


def test_earlier_runs_of_the_model_say_how_much_scores_move(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "same": scored(0.9), "fp8": losing(0.1, scored(0.9))}
    make_run(tmp_path / "a", answers=answers, manifest=SAME)
    found = earlier_spreads(tmp_path, "abc", without=tmp_path / "new")
    assert found["greedy"].source == f"the candidate that moved most in {tmp_path / 'a'}"
    assert found["greedy"].spread.variance == pytest.approx(0.08, abs=0.02)
    assert found["greedy"].spread.differing == pytest.approx(0.09, abs=0.02)


def test_the_newest_run_counts_and_the_planned_one_does_not(tmp_path: Path) -> None:
    for name, year in (("old", 2024), ("new", 2025), ("planned", 2026)):
        answers = {"bf16": scored(0.9), "fp8": losing(0.1, scored(0.9))}
        make_run(tmp_path / name, answers=answers, manifest={**SAME, "created": f"{year}-01-02T03:04:05Z"})
    found = earlier_spreads(tmp_path, "abc", without=tmp_path / "planned")
    assert found["greedy"].source.endswith(str(tmp_path / "new"))


@pytest.mark.parametrize("manifest", [{"inputs": {"model/config.json": "other"}}, {**SAME, "status": "running"}])
def test_other_models_and_unfinished_runs_say_nothing(tmp_path: Path, manifest: dict[str, object]) -> None:
    make_run(tmp_path / "a", answers={"bf16": scored(0.9), "fp8": scored(0.8)}, manifest=manifest)
    assert earlier_spreads(tmp_path, "abc", without=tmp_path / "new") == {}
    assert earlier_spreads(tmp_path, None, without=tmp_path / "new") == {}


def test_a_broken_run_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text(json.dumps({"schema_version": 1}))
    assert earlier_spreads(tmp_path, "abc", without=tmp_path / "new") == {}


def test_the_default_is_stated() -> None:
    assert "43 of 300 answers turned" in default_spread("greedy").source
    assert default_spread("probability").spread.variance < default_spread("greedy").spread.variance
