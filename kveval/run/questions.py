"""How many questions share a context, where the configuration leaves it to kveval: chosen while a run is planned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from kveval.run.storage import Stored


class ChosenQuestions(Stored):
    """The number of questions per haystack of one cell, chosen by ``questions_per_haystack: auto``.

    Attributes:
        samples: of the cell when the number was chosen. A run that grows keeps the number.
        because: what it was chosen by, in words.
    """

    task: str
    context_length: int
    samples: Annotated[int, Field(gt=0)]
    questions: Annotated[int, Field(gt=0)]
    because: str


def chosen_in_words(chosen: Iterable[ChosenQuestions]) -> list[str]:
    """Returns one sentence for each number and reason, with the tasks and lengths that it holds for."""
    together: dict[tuple[int, int, str], list[str]] = {}
    for one in chosen:
        together.setdefault((one.questions, one.context_length, one.because), []).append(one.task)
    return [
        f"questions per haystack: {questions} at {length:,} tokens ({', '.join(tasks)}), because {because}"
        for (questions, length, because), tasks in together.items()
    ]
