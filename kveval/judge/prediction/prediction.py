"""``prediction.json`` of a run directory: what the plan could show, as it was said before the first launch."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from kveval.errors import RunDirectoryError
from kveval.run.storage import Stored, first_problem, to_json, write_atomically

PREDICTION_FILE = "prediction.json"


class PredictedRow(Stored):
    """What the plan can show at one context length, or over all, by one kind of score. Losses are shares of 1.

    Attributes:
        context_length: None over all lengths.
        evidence: the kind of score: greedy, or a unit of the expected score.
        can_pass: whether any outcome excludes a loss of the margin.
        chance_to_pass: if nothing is lost.
        detectable_loss: the smallest loss shown to exceed the margin with a chance of 80%. None if none is.
        questions_for: by loss, how many questions exclude it with a chance of 80% if nothing is lost. None if none do.
    """

    context_length: int | None
    evidence: str
    questions: int
    contexts: int
    margin: float
    can_pass: bool
    chance_to_pass: float
    detectable_loss: float | None
    questions_for: dict[str, int | None]


class Prediction(Stored):
    """What a plan can show.

    Attributes:
        variances: where the variance of each kind of score comes from, one sentence each.
        warnings: what cannot be decided, and what to change.
    """

    rows: list[PredictedRow]
    variances: list[str]
    warnings: list[str]


def write_prediction(run: Path, prediction: Prediction) -> None:
    write_atomically(run / PREDICTION_FILE, to_json(prediction, indent=1) + "\n")


def read_prediction(run: Path) -> Prediction | None:
    """Reads what was predicted. None for a run that has no prediction.

    Raises:
        RunDirectoryError: the file is broken.
    """
    path = run / PREDICTION_FILE
    try:
        return Prediction.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise RunDirectoryError(f"{path}: {first_problem(error)}; delete the file to go on without it") from error
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path}: not readable: {error}; delete the file to go on without it") from error
