"""``prediction.json`` is read as it was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from kveval.errors import RunDirectoryError
from kveval.judge.prediction.prediction import (
    PREDICTION_FILE,
    PredictedRow,
    Prediction,
    read_prediction,
    write_prediction,
)

ROW = PredictedRow(
    context_length=2048, evidence="greedy", questions=20, contexts=2, margin=0.02, can_pass=False, chance_to_pass=0.0,
    detectable_loss=0.4, questions_for={"0.01": 10_000, "0.02": None},
)  # fmt: skip


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    prediction = Prediction(rows=[ROW], variances=["greedy: a default"], warnings=["too few"])
    write_prediction(tmp_path, prediction)
    assert read_prediction(tmp_path) == prediction


def test_a_run_may_have_none(tmp_path: Path) -> None:
    assert read_prediction(tmp_path) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": 1}', '{"rows": [], "variances": [], "warnings": [], "x": 1}'])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / PREDICTION_FILE).write_text(text)
    with pytest.raises(RunDirectoryError, match=r"prediction\.json.*delete the file"):
        read_prediction(tmp_path)
