"""Divides a cell into haystacks, asks the task's builder to plan each, and checks what it returns."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kveval.errors import ConfigError, PlanError
from kveval.tasks.builders.base import Builder, Haystack, Question
from kveval.tasks.builders.draws import seeded
from kveval.tasks.builders.sources import TextSource
from kveval.tasks.corpora.texts import haystack_text
from kveval.tasks.task import Cell, Task
from kveval.tasks.user_code import user_code


@dataclass(frozen=True, slots=True)
class PlannedHaystack:
    """One haystack of a cell as its builder planned it; the text around the needles is still to be chosen.

    Attributes:
        index: the haystack's number in its cell.
        where: task, context length and index, as error messages name them.
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
    """Plans the haystacks of a cell, one after the other."""
    builder = builder_of(task)
    with user_code(f"task {task.name!r}: most_questions of its builder"):
        most = builder.most_questions(cell.context_length) or cell.questions_per_haystack
    questions = min(cell.questions_per_haystack, most)
    for index, (own, depth_shift) in enumerate(_numbers_and_shifts(task, cell, questions)):
        where = f"task {task.name!r} at context_length {cell.context_length}, haystack {index}"
        rng = seeded(task.name, cell.context_length, index, cell.seed)
        haystack = plan_haystack(f"{where}: its builder", builder, own, depth_shift, rng)
        yield PlannedHaystack(index, where, haystack, rng)


def _numbers_and_shifts(task: Task, cell: Cell, questions: int) -> Iterator[tuple[range, float]]:
    """Yields the sample numbers and the depth shift of each haystack. The shifts cover the context evenly.

    What is added to a cell is drawn by itself, so that what the cell had before stays as it was.
    """
    for first, past in pairwise((0, *cell.grown_from, cell.samples)):
        numbers = sample_numbers(past - first, questions)
        address = (task.name, cell.context_length, "phases", cell.seed)
        rng = seeded(*address, first) if first else seeded(*address)
        strata = list(range(len(numbers)))
        rng.shuffle(strata)
        for own, stratum in zip(numbers, strata, strict=True):
            yield range(own.start + first, own.stop + first), (stratum + rng.random()) / len(numbers)


def builder_of(task: Task) -> Builder:
    """Returns the builder of a task. Raises PlanError for a task of fixed prompts, which has none."""
    if task.builder is None:
        raise PlanError(f"task {task.name!r} has fixed prompts, so no haystack can be built for it")
    return task.builder


def sample_numbers(samples: int, questions_per_haystack: int) -> list[range]:
    """Divides sample numbers among as few haystacks as possible, of equal size within one."""
    count = -(-samples // questions_per_haystack)
    bounds = [haystack * samples // count for haystack in range(count + 1)]
    return [range(first, past) for first, past in pairwise(bounds)]


def plan_haystack(who: str, builder: Builder, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
    """Calls `Builder.haystack` and checks what it returns. Messages name the builder `who`.

    Raises:
        ConfigError: the builder fails, or returns what would show late or only as scores of zero.
    """
    with user_code(who):
        haystack = builder.haystack(numbers, depth_shift, rng)
        fault = next(_faults(haystack, numbers), None)
    if fault:
        raise ConfigError(f"{who} {fault}")
    return haystack


def _faults(haystack: Any, numbers: range) -> Iterator[str]:
    if not isinstance(haystack, Haystack):
        yield f"returns {type(haystack).__name__}; use a Haystack"
        return
    if len(haystack.questions) != len(numbers):
        yield f"returns {len(haystack.questions)} questions for {len(numbers)} samples; use one for each of `numbers`"
    # A lone str would be taken for its letters.
    if isinstance(haystack.forbidden, str) or not _are_texts(haystack.forbidden):
        yield f"returns forbidden={haystack.forbidden!r}; use a set of non-empty strings"
    for k, needle in enumerate(haystack.needles):
        if not (_are_texts([needle.text]) and isinstance(needle.lead, str)):
            yield f"plants needle {k} with the text {needle.text!r} after {needle.lead!r}; use non-empty strings"
        if not 0 <= needle.depth_percent <= 100:
            yield f"plants needle {k} at depth_percent={needle.depth_percent}; use a number from 0 to 100"
    for k, question in enumerate(haystack.questions):
        for name, texts in (("answers", question.answers), ("distractors", question.distractors)):
            if not (isinstance(texts, tuple | list) and _are_texts(texts)):
                yield f"asks question {k} with {name}={texts!r}; use a tuple of non-empty strings"
        if not question.answers:
            yield f"asks question {k} without answers; use at least one, which the scorer looks for"
        if not set(question.needles) <= set(range(len(haystack.needles))):
            planted = len(haystack.needles)
            yield f"asks question {k} about needles={question.needles!r}; use indexes of its {planted} needles"
        if not _is_json(question.fields):
            yield f"asks question {k} with fields={question.fields!r}; use a dict that JSON can hold"


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _is_json(fields: Any) -> bool:
    try:
        json.dumps(fields)
    except (TypeError, ValueError):
        return False
    return isinstance(fields, dict)
