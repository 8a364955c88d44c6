"""The rule that checks variants against their blessed answers."""

from __future__ import annotations

from pathlib import Path

from support.judge_command import document, kveval
from support.make_run import GOOD, losing, make_run, scored


def test_the_same_answers_pass(tmp_path: Path, blessed: Path) -> None:
    path = make_run(tmp_path / "tonight", answers=GOOD)
    assert kveval("gate", path, "--against", blessed).code == 0
    kinds = [(check["kind"], check["variant"]) for check in document(path)["checks"]]
    assert kinds == [("quantization", "same"), ("blessed", "bf16"), ("blessed", "same")]
    assert document(path)["notes"] == []


def test_an_upgrade_that_hurts_the_baseline_is_a_regression(tmp_path: Path, blessed: Path) -> None:
    facts = {"engine_version": "0.33.0", "storage": "native", "attention_backend": "NEW_ATTN"}
    path = make_run(
        tmp_path / "tonight",
        answers={"bf16": losing(0.1), "same": losing(0.1)},
        variants={"bf16": {"facts": facts}},
    )
    result = kveval("gate", path, "--against", blessed)
    assert result.code == 1
    verdicts = {(check["kind"], check["variant"]): check["verdict"] for check in document(path)["checks"]}
    assert verdicts["blessed", "bf16"] == "regression"
    notes = " ".join(note["message"] for note in document(path)["notes"])
    assert "engine_version was '0.32.0' and is '0.33.0'" in notes
    assert "NEW_ATTN" in notes


def test_holm_counts_both_questions(tmp_path: Path, blessed: Path) -> None:
    path = make_run(tmp_path / "tonight", answers={"bf16": scored(0.9), "same": losing(0.05)})
    kveval("gate", path)
    alone = document(path)["checks"][0]["rows"][0]
    kveval("gate", path, "--against", blessed)
    together = document(path)["checks"][0]["rows"][0]
    assert together["p"] == alone["p"]
    assert together["p_holm"] > alone["p_holm"]
