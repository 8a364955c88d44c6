"""The prediction in a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from kveval.judge.prediction.prediction import PredictedRow, Prediction
from kveval.report.terminal.prediction import prediction_lines


def test_rows_variances_and_warnings_are_shown() -> None:
    row = PredictedRow(
        context_length=2048, evidence="token_accuracy", questions=300, contexts=30, margin=0.02, can_pass=True,
        chance_to_pass=0.834, detectable_loss=0.0612, questions_for={"0.01": 12_345, "0.02": None},
    )  # fmt: skip
    none = row.model_copy(update={"context_length": None, "can_pass": False, "detectable_loss": None})
    prediction = Prediction(rows=[row, none], variances=["greedy: a default"], warnings=["overall: cannot pass"])
    out = io.StringIO()
    Console(file=out, width=160).print(*prediction_lines(prediction))
    text = out.getvalue()
    for part in (
        "2K",
        "token accuracy",
        "83%",
        "6.1",
        "12,345",
        "exclude a loss of 1 / 2 points with 80%",
        "cannot",
        "variance of greedy: a",
    ):
        assert part in text
    assert "warning: overall: cannot pass" in text
