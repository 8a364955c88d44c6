"""One comparison and one variant as flat rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.judgement import judge, overall
from support.make_run import make_run, make_samples, scored

from kveval.judge.run_data import load_run
from kveval.report.documents.rows import comparison_part, comparison_row, variant_row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_run(
        tmp_path / "run", samples=make_samples(haystacks=8),
        answers={"bf16": scored(0.9), "fp8": scored(0.6), "fp8-control": scored(0.8)},
        variants={"fp8-control": {"role": "control", "of": "fp8"}},
    )  # fmt: skip


def test_a_judged_comparison(path: Path) -> None:
    row = comparison_row(overall(judge(path), "fp8"))
    json.dumps(row, allow_nan=False)
    assert (row["level"], row["family"], row["n"], row["haystacks"]) == ("overall", None, 160, 16)
    assert row["delta"] == pytest.approx(row["score"] - row["baseline_score"])
    assert (row["verdict"], row["gained"]) == ("fail", 0)
    parts = row["attribution"]
    assert parts["control"] == "fp8-control"
    assert parts["total"]["delta"] == pytest.approx(parts["format"]["delta"] + parts["kernel"]["delta"])


def test_a_comparison_without_a_verdict_says_null(path: Path) -> None:
    row = comparison_row(overall(judge(path), "fp8-control"))
    assert (row["verdict"], row["reason"], row["p_holm"], row["attribution"], row["noise"]) == (None,) * 5


def test_a_part_of_a_row_has_the_keys_asked_for(path: Path) -> None:
    part = comparison_part(overall(judge(path), "fp8"), "n", "verdict")
    assert part == {"n": 160, "verdict": "fail"}
    assert comparison_part(None, "n") is None


def test_a_variant_is_told_with_what_a_reader_needs(path: Path) -> None:
    row = variant_row(load_run(path).manifest.variants["fp8-control"])
    assert (row["role"], row["of"], row["status"], row["kv_capacity_tokens"]) == ("control", "fp8", "complete", 100_000)
