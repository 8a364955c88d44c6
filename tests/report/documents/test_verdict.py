from __future__ import annotations

import json
from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.errors import IncomparableError, InfrastructureError, UsageError
from kveval.judge.gate.gate import gate
from kveval.report.documents.verdict import error_word, no_verdict, verdict
from kveval.run.storage import to_json

EMULATED = {"storage": "emulated", "emulation": "int8 per_token_head (emulated)"}


def test_it_is_strict_json_and_says_emulated(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=8),
        answers={"bf16": scored(0.9), "int8": scored(0.6), "bf16-aa": scored(0.9)},
        variants={"int8": {"facts": EMULATED}, "bf16-aa": {"role": "aa", "of": "bf16"}},
    )
    document = verdict(gate(run))
    assert json.loads(to_json(document)) == json.loads(to_json(verdict(gate(run))))
    (check,) = document["checks"]
    assert (check["variant"], check["verdict"], check["emulated"]) == ("int8", "regression", True)
    assert [note["code"] for note in document["notes"]] == ["emulated"]
    assert document["noise"]["identical"] == 1.0
    assert {row["variant"] for row in document["drift"]} == {"int8"}


def test_a_gate_that_could_not_judge_has_the_same_keys(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", samples=make_samples(haystacks=2), answers={"bf16": scored(0.9), "fp8": scored(0.9)}
    )
    document = no_verdict(IncomparableError("other samples"), "runs/a")
    assert document.keys() == verdict(gate(run)).keys()
    assert (document["verdict"], document["exit_code"], document["reason"]) == ("incomparable", 4, "other samples")


def test_every_error_has_a_word() -> None:
    assert error_word(InfrastructureError("x")) == "infrastructure"
    assert error_word(UsageError("x")) == "usage"
