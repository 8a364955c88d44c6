"""The report shows what was predicted, if something was."""

from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, scored

from kveval.judge.prediction.prediction import PredictedRow, Prediction, write_prediction
from kveval.report.html.report import build_report


def test_the_report_shows_the_prediction(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)})
    assert "What the plan could show" not in build_report(path).read_text()
    row = PredictedRow(
        context_length=2048, evidence="greedy", questions=300, contexts=30, margin=0.02, can_pass=True,
        chance_to_pass=0.834, detectable_loss=0.0612, questions_for={"0.01": 12_345, "0.02": None},
    )  # fmt: skip
    write_prediction(path, Prediction(rows=[row], variances=["greedy: a <default>"], warnings=["too few"]))
    page = build_report(path).read_text()
    for part in ("What the plan could show", "83.4%", "6.1", "12,345", "greedy: a &lt;default&gt;", "warning: "):
        assert part in page


def test_the_report_says_how_many_questions_share_a_haystack(tmp_path: Path) -> None:
    chosen = {"context_length": 4096, "samples": 100, "questions": 14, "because": "a prefill <costs>"}
    manifest = {"questions_per_haystack": [{"task": name, **chosen} for name in ("a", "b")]}
    path = make_run(tmp_path / "run", answers={"bf16": scored(0.9), "fp8": scored(0.9)}, manifest=manifest)
    assert (
        "questions per haystack: 14 at 4,096 tokens (a, b), because a prefill &lt;costs&gt;"
        in build_report(path).read_text()
    )
