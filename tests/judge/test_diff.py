"""Any two runs, variants or blessed files, compared sample by sample."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.judge_command import kveval
from support.make_run import BAD, GOOD, make_run, make_samples, scored

from kveval.run.records import Outcome, SampleRow


def test_two_variants_of_one_run(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers=BAD)
    result = kveval("diff", f"{path}:bf16", f"{path}:int4", "--json")
    assert result.code == 0
    (found,) = json.loads(result.text)["pairs"]
    overall = found["rows"][0]
    assert (found["first"], found["second"]) == ("bf16", "int4")
    assert overall["gained"] == 0
    assert overall["delta"] == pytest.approx(-overall["lost"] / 600)
    assert "int4" in kveval("diff", f"{path}:bf16", f"{path}:int4").text


def test_two_runs_pair_what_both_have(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", answers={**GOOD, "old": scored(0.9)})
    second = make_run(tmp_path / "b", answers={**GOOD, "new": scored(0.9)})
    found = json.loads(kveval("diff", first, second, "--json").text)
    assert [pair["first"] for pair in found["pairs"]] == ["bf16", "same"]
    found = json.loads(kveval("diff", f"{first}:old", f"{second}:new", "--json").text)
    assert [(pair["first"], pair["second"]) for pair in found["pairs"]] == [("old", "new")]


def test_a_blessed_file_is_a_side(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", answers=GOOD)
    kveval("bless", first, "--out", tmp_path / "b.json")
    found = json.loads(kveval("diff", tmp_path / "b.json", first, "--json").text)
    assert [pair["rows"][0]["identical"] for pair in found["pairs"]] == [1.0, 1.0]
    assert found["pairs"][0]["drift"] is None
    found = json.loads(kveval("diff", first, tmp_path / "b.json", "--json").text)
    assert [pair["rows"][0]["identical"] for pair in found["pairs"]] == [1.0, 1.0]


def test_prompts_without_a_right_answer_show_what_changed_and_never_pass(tmp_path: Path) -> None:
    samples = [
        row.model_copy(update={"doc": {**row.doc, "scored": False}}) for row in make_samples(haystacks=30)
    ]  # fmt: skip

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str]:
        return "unscored", "some text"

    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": answer, "fp8": answer})
    assert kveval("gate", path, "--undecided", "allow").code == 5
    kveval("bless", path, "--out", tmp_path / "b.json")
    found = json.loads(kveval("diff", path, tmp_path / "b.json", "--json").text)
    assert found["pairs"][0]["rows"][0]["identical"] == 1.0
    assert found["pairs"][0]["rows"][0]["n"] == 0


def test_other_samples_and_unknown_variants_are_refused(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", answers=GOOD)
    other = make_run(tmp_path / "b", samples=make_samples(haystacks=29), answers=GOOD)
    result = kveval("diff", first, other)
    assert result.code == 4
    assert "20 questions were asked in only one of them" in result.text
    assert kveval("diff", f"{first}:bf17", first).code == 2
    assert kveval("diff", tmp_path / "none", first).code == 2
    alone = make_run(tmp_path / "c", answers={"fp8": scored(0.9)})
    assert kveval("diff", first, alone).code == 4
