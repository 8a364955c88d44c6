from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.errors import PlanError
from kveval.tasks.assembly.planned import builder_of, planned_haystacks, sample_numbers
from kveval.tasks.builders.base import Builder, Haystack, Question
from kveval.tasks.task import Cell, Task


class AtMostTwo(Builder):
    def most_questions(self, context_length):
        return 2

    def haystack(self, numbers, depth_shift, rng):
        return Haystack([], [Question({"question": f"{number}"}, ("7",)) for number in numbers])


def task_of(builder: Builder | None) -> Task:
    return Task("t", "f", "1", "", str, lambda *_: {}, builder, 8)


@given(samples=st.integers(1, 300), questions=st.integers(1, 40))
def test_haystacks_share_a_cell_evenly(samples, questions):
    numbers = sample_numbers(samples, questions)
    assert [n for part in numbers for n in part] == list(range(samples))
    assert len(numbers) == -(-samples // questions)
    sizes = [len(part) for part in numbers]
    assert max(sizes) <= questions
    assert max(sizes) - min(sizes) <= 1


def test_a_cell_that_asks_more_than_fits_gets_more_haystacks():
    planned = list(planned_haystacks(task_of(AtMostTwo()), Cell("t", 1024, 5, 10, 0, "generated")))
    assert [len(each.haystack.questions) for each in planned] == [1, 2, 2]
    assert [each.index for each in planned] == [0, 1, 2]


def test_each_haystack_has_its_own_generator():
    first, second, _ = planned_haystacks(task_of(AtMostTwo()), Cell("t", 1024, 5, 10, 0, "generated"))
    assert first.rng.random() != second.rng.random()


def test_a_builder_may_bring_its_own_filler():
    [planned] = planned_haystacks(task_of(AtMostTwo()), Cell("t", 1024, 2, 2, 0, "generated"))
    assert planned.source(Cell("t", 1024, 2, 2, 0, "generated")).name == "generated"
    assert next(planned.source(Cell("t", 1024, 2, 2, 0, "generated")).order(random.Random(0))) >= 0


def test_a_task_of_fixed_prompts_has_no_builder():
    with pytest.raises(PlanError, match="task 't' has fixed prompts"):
        builder_of(task_of(None))
