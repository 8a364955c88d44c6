from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from support.make_run import make_run, make_samples, scored

from kveval.judge.gate.gate import Gate, gate
from kveval.report.terminal.gate import gate_table


def printed(decision: Gate) -> str:
    file = io.StringIO()
    Console(width=120, file=file).print(gate_table(decision))
    return file.getvalue()


def test_a_loss_shows_its_cause_and_the_worst_cells(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.9), "fp8": scored(0.5), "fp8-control": scored(0.9)},
        variants={"fp8-control": {"role": "control", "of": "fp8"}, "fp8": {"reason": None}},
    )
    text = printed(gate(path))
    assert "\nregression     fp8  native" in text
    assert "vs tonight's bf16, " in text
    assert "the loss comes from the kernel" in " ".join(text.split())
    assert "worst cells" in text
    assert text.startswith("gate: regression, exit code 1")


def test_an_undecided_run_says_that_the_policy_allows_it(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=7, questions=2),
        answers={"bf16": scored(0.9), "fp8": scored(0.9)},
    )
    text = printed(gate(path, overrides={"undecided": "allow"}))
    assert text.startswith("gate: undecided, exit code 0 (the policy allows undecided)")
    assert "worst cells" not in text
