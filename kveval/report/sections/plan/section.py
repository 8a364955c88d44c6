"""What the plan could show, as it was said before the first launch, and how many questions share a context."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.judge.prediction.prediction import Prediction, read_prediction
from kveval.judge.run_data import RunData
from kveval.report.section import Section
from kveval.run.manifest import chosen_in_words


@dataclass(frozen=True, slots=True)
class Content:
    """`prediction`: None for a run that has none. `questions`: sentences, where kveval chose the number."""

    prediction: Prediction | None
    questions: list[str]


def content(run: RunData) -> Content | None:
    """Returns what the section shows. None if nothing is known of the plan."""
    found = Content(read_prediction(run.path), chosen_in_words(run.manifest.questions_per_haystack))
    return found if found.prediction or found.questions else None


SECTION = Section("What the plan could show", 55, lambda run, _: content(run), link="Plan")
