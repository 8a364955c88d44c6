"""The gate as a whole: which policy holds, and which state wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.judge_command import document, kveval
from support.make_run import BAD, GOOD, losing, make_run, scored
from support.nights import asked_in_turn, night

from kveval.errors import InternalError
from kveval.judge.gate import gate


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


def test_a_second_run_that_differs_from_the_first_is_infrastructure(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={**GOOD, "bf16-aa": losing(0.2)},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
    )
    result = kveval("gate", path)
    assert result.code == 3
    assert "the baseline's second run differs from the first" in result.text
    assert document(path)["noise"]["lost"] > 50


def test_a_second_run_that_may_differ_by_chance_is_noted(tmp_path: Path) -> None:
    rows = asked_in_turn(haystacks=12)
    path = night(tmp_path, rows, bf16_aa=losing(0.042), fp8=scored(0.9)).path
    # p = 0.011: rejected at 95%, and not at 99%.
    assert kveval("gate", path).code == 5
    (note,) = document(path)["notes"]
    assert note["code"] == "unequal_control"
    assert "chance explains it once in a while" in note["message"]
    assert document(path)["problems"] == []


def test_a_margin_of_an_unknown_family_is_noted(tmp_path: Path) -> None:
    config = {"judge": {"margins": {"nedle": 0.01}}}
    path = make_run(tmp_path / "run", answers=GOOD, manifest={"config": config})
    assert kveval("gate", path).code == 0
    assert document(path)["notes"][0]["code"] == "unused_margin"


def test_a_looser_policy_is_noted(tmp_path: Path, blessed: Path) -> None:
    path = make_run(tmp_path / "tonight", answers=GOOD)
    kveval("gate", path, "--against", blessed, "--margin", "0.2")
    assert "margin was 0.02 and is 0.2" in document(path)["notes"][0]["message"]


def test_a_new_variant_is_noted(tmp_path: Path, blessed: Path) -> None:
    path = make_run(tmp_path / "tonight", answers={**GOOD, "new": scored(0.9)})
    assert kveval("gate", path, "--against", blessed).code == 0
    assert "new was not in the blessed run" in document(path)["notes"][0]["message"]


@pytest.mark.parametrize("left_out", ["quantization", "blessed"])
def test_a_pair_that_no_rule_checks_is_never_a_pass(
    tmp_path: Path, blessed: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    path = make_run(tmp_path / "tonight", answers=GOOD)
    find = gate.find_rules
    rules = [rule for rule in find() if left_out not in rule.check.__name__]
    assert len(rules) == len(find()) - 1
    monkeypatch.setattr(gate, "find_rules", lambda: rules)
    result = kveval("gate", path, "--against", blessed)
    assert result.code == 70
    assert "same against " in result.text.split("no rule of the gate checked ")[1]
    assert document(path)["verdict"] == "infrastructure"


def test_a_gate_without_rules_is_never_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "find_rules", list)
    path = make_run(tmp_path / "run", answers=GOOD)
    with pytest.raises(InternalError, match="no rule of the gate checked same against bf16"):
        gate.gate(path)
