from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.errors import ConfigError, PlanError
from kveval.tasks.assembly.planned import builder_of, plan_haystack, planned_haystacks, sample_numbers
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question
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


class NotesShifts(Builder):
    def haystack(self, numbers, depth_shift, rng):
        fields = [{"question": f"{number}", "shift": depth_shift, "draw": rng.random()} for number in numbers]
        return Haystack([], [Question(one, ("7",)) for one in fields])


@given(counts=st.lists(st.integers(1, 60), min_size=1, max_size=4), questions=st.integers(1, 12))
def test_what_is_added_to_a_cell_leaves_what_it_had(counts, questions):
    def planned(*samples: int):
        cell = Cell("t", 1024, samples[-1], questions, 0, "generated", tuple(samples[:-1]))
        return [(one.index, one.haystack.questions) for one in planned_haystacks(task_of(NotesShifts()), cell)]

    totals = [sum(counts[: end + 1]) for end in range(len(counts))]
    grown = planned(*totals)
    for end in range(1, len(totals)):
        smaller = planned(*totals[:end])
        assert grown[: len(smaller)] == smaller
    asked = [question.fields["question"] for _, own in grown for question in own]
    assert asked == [str(number) for number in range(totals[-1])]
    assert [index for index, _ in grown] == list(range(len(grown)))


def test_what_is_added_covers_the_context_by_itself():
    cell = Cell("t", 1024, 50, 5, 0, "generated", (10,))
    shifts = [one.haystack.questions[0].fields["shift"] for one in planned_haystacks(task_of(NotesShifts()), cell)]
    assert sorted(int(shift * 2) for shift in shifts[:2]) == [0, 1]
    assert sorted(int(shift * 8) for shift in shifts[2:]) == list(range(8))


def test_a_builder_may_bring_its_own_filler():
    [planned] = planned_haystacks(task_of(AtMostTwo()), Cell("t", 1024, 2, 2, 0, "generated"))
    assert planned.source(Cell("t", 1024, 2, 2, 0, "generated")).name == "generated"
    assert next(planned.source(Cell("t", 1024, 2, 2, 0, "generated")).order(random.Random(0))) >= 0


def test_a_task_of_fixed_prompts_has_no_builder():
    with pytest.raises(PlanError, match="task 't' has fixed prompts"):
        builder_of(task_of(None))


def ask(builder: Builder) -> Haystack:
    return plan_haystack("its builder", builder, range(3), 0.5, random.Random(0))


def plans(**changes):
    """A builder whose haystacks are right but for `changes` to the first needle, the first question or themselves."""

    class Plans(Builder):
        def haystack(self, numbers, depth_shift, rng):
            needles = [Needle(f"The code of box {n} is {7000000 + n}.", 50) for n in numbers]
            questions = [Question({"question": f"Box {n}?"}, (str(7000000 + n),), (n,)) for n in numbers]
            for part, of in ((needles, Needle), (questions, Question)):
                names = changes.keys() & {field.name for field in dataclasses.fields(of)}
                part[0] = dataclasses.replace(part[0], **{name: changes[name] for name in names})
            if "asks_about" in changes:
                questions[0] = dataclasses.replace(questions[0], needles=changes["asks_about"])
            return Haystack(needles, changes.get("questions", questions), changes.get("forbidden", frozenset()))

    return Plans()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"questions": []}, "returns 0 questions for 3 samples; use one for each of `numbers`"),
        ({"questions": [Question({}, ("a",))] * 16}, "returns 16 questions for 3 samples"),
        ({"answers": "7000000"}, "asks question 0 with answers='7000000'; use a tuple of non-empty strings"),
        ({"answers": (7000000,)}, "asks question 0 with answers=(7000000,)"),
        ({"answers": 7000000}, "asks question 0 with answers=7000000"),
        ({"answers": ()}, "asks question 0 without answers"),
        ({"answers": ("",)}, "asks question 0 with answers=('',)"),
        ({"distractors": "700"}, "asks question 0 with distractors='700'"),
        ({"asks_about": (3,)}, "asks question 0 about needles=(3,); use indexes of its 3 needles"),
        ({"asks_about": (-1,)}, "asks question 0 about needles=(-1,)"),
        ({"fields": {"question": {1, 2}}}, "asks question 0 with fields={'question': {1, 2}}"),
        ({"depth_percent": float("nan")}, "plants needle 0 at depth_percent=nan; use a number from 0 to 100"),
        ({"depth_percent": 300}, "plants needle 0 at depth_percent=300"),
        ({"depth_percent": -5}, "plants needle 0 at depth_percent=-5"),
        ({"depth_percent": "50"}, "its builder fails: TypeError"),
        ({"text": 7}, "plants needle 0 with the text 7"),
        ({"forbidden": "7000000"}, "returns forbidden='7000000'; use a set of non-empty strings"),
        ({"forbidden": frozenset((7000000,))}, "returns forbidden=frozenset({7000000})"),
    ],
)
def test_a_broken_contract_is_told_in_one_line(changes, says):
    with pytest.raises(ConfigError) as refused:
        ask(plans(**changes))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_kept_contract_is_accepted():
    assert len(ask(plans()).questions) == 3


class Raises(Builder):
    def haystack(self, numbers, depth_shift, rng):
        return rng.sample(range(len(numbers) - 1), len(numbers))


def test_what_a_builder_raises_is_told():
    says = "its builder fails: ValueError: Sample larger than population"
    with pytest.raises(ConfigError, match=says):
        ask(Raises())
