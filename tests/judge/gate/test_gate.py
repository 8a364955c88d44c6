"""The gate as a whole: which policy holds, and which state wins."""

from __future__ import annotations

from pathlib import Path

from support.judge_command import document, kveval
from support.make_run import BAD, losing, make_run, scored


def test_a_wider_margin_passes_what_a_narrow_one_does_not(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": losing(0.08)})
    assert kveval("gate", path).code == 1
    assert kveval("gate", path, "--margin", "0.15").code == 0
    assert document(path)["policy"]["margin"] == 0.15


def test_the_policy_of_the_run_is_the_default(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": losing(0.08)},
        manifest={"config": {"judge": {"margin": 0.15}}},
    )
    assert kveval("gate", path).code == 0
    assert kveval("gate", path, "--margin", "0.02").code == 1


def test_a_proven_loss_comes_before_what_was_not_measured(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers=BAD,
        variants={"fp8": {"status": "refused", "reason": "the engine ignored the flag"}},
        manifest={"status": "incomplete"},
    )
    assert kveval("gate", path).code == 1
    assert {c["variant"]: c["verdict"] for c in document(path)["checks"]} == {
        "int4": "regression",
        "fp8": "infrastructure",
    }


def test_a_run_without_candidates_is_not_judged(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9)})
    result = kveval("gate", path)
    assert result.code == 2
    assert "no variant to compare" in result.text
