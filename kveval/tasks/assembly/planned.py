"""Divides a cell into haystacks and asks the task's builder to plan each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kveval.errors import PlanError
from kveval.tasks.builders.base import Builder, Haystack, Question
from kveval.tasks.builders.contract import plan_haystack
from kveval.tasks.builders.sources import TextSource
from kveval.tasks.corpora.texts import haystack_text
from kveval.tasks.seeding import seeded
from kveval.tasks.task import Cell, Task
from kveval.tasks.user_code import user_code


@dataclass(frozen=True, slots=True)
class PlannedHaystack:
    """One haystack of a cell as its builder planned it; the text around the needles is still to be chosen.

    Attributes:
        index: the haystack's number in its cell.
        where: task, context length and index, as error messages name them.
        haystack: needles and questions.
        rng: the haystack's generator, after the builder drew from it.
    """

    index: int
    where: str
    haystack: Haystack
    rng: random.Random

    def source(self, cell: Cell) -> TextSource:
        """Returns the text that fills the haystack: the builder's own, or the cell's haystack style."""
        return self.haystack.source or self.haystack.retell(haystack_text(cell.haystack_style))

    def doc(
        self, question: Question, depths_percent: Sequence[float], excerpts: Sequence[str], source: TextSource
    ) -> dict[str, Any]:
        """Returns the row that the scorer reads for one question."""
        return {
            **question.fields,
            "answers": list(question.answers),
            "distractors": list(question.distractors),
            "absent": question.absent,
            "depths_percent": list(depths_percent),
            "excerpts": list(excerpts),
            "haystack_style": source.name,
            "haystack": self.index,
        }


def planned_haystacks(task: Task, cell: Cell) -> Iterator[PlannedHaystack]:
    """Plans the haystacks of a cell, one after the other.

    Raises:
        ConfigError: the task's builder fails or returns what it must not.
        PlanError: the task has no builder.
    """
    builder = builder_of(task)
    with user_code(f"task {task.name!r}: most_questions of its builder"):
        most = builder.most_questions(cell.context_length) or cell.questions_per_haystack
    numbers = sample_numbers(cell.samples, min(cell.questions_per_haystack, most))
    shift_rng = seeded(task.name, cell.context_length, "phases", cell.seed)
    strata = list(range(len(numbers)))
    shift_rng.shuffle(strata)
    for index, (own, stratum) in enumerate(zip(numbers, strata, strict=True)):
        depth_shift = (stratum + shift_rng.random()) / len(numbers)
        where = f"task {task.name!r} at context_length {cell.context_length}, haystack {index}"
        rng = seeded(task.name, cell.context_length, index, cell.seed)
        haystack = plan_haystack(f"{where}: its builder", builder, own, depth_shift, rng)
        yield PlannedHaystack(index, where, haystack, rng)


def builder_of(task: Task) -> Builder:
    """Returns the builder of a task that has one.

    Raises:
        PlanError: the task has fixed prompts.
    """
    if task.builder is None:
        raise PlanError(f"task {task.name!r} has fixed prompts, so no haystack can be built for it")
    return task.builder


def sample_numbers(samples: int, questions_per_haystack: int) -> list[range]:
    """Divides sample numbers among as few haystacks as possible, of equal size within one."""
    count = -(-samples // questions_per_haystack)
    bounds = [haystack * samples // count for haystack in range(count + 1)]
    return [range(first, past) for first, past in pairwise(bounds)]
