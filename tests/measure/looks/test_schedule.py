from __future__ import annotations

from collections import Counter

import pytest
from support.samples import sample

from kveval.measure.haystacks import group_by_haystack
from kveval.measure.looks.schedule import LookPlan, plan_looks
from kveval.tasks.sample import Sample


def samples(haystacks: dict[int, int], first: int = 0) -> list[Sample]:
    """So many haystacks of two questions, by the tokens they share."""
    return [
        sample(f"{shared}-{number}", question, shared=shared)
        for shared, count in haystacks.items()
        for number in range(first, first + count)
        for question in range(2)
    ]


def counted(plan: LookPlan, asked: list[Sample]) -> dict[int, list[int]]:
    """Haystacks that each look counts, by context length."""
    found: dict[int, Counter[int]] = {}
    for haystack in group_by_haystack(asked):
        looks = {plan.first_look[one.sample_id] for one in haystack.samples}
        assert len(looks) == 1
        found.setdefault(haystack.cell[0], Counter())[looks.pop()] += 1
    return {
        length: [sum(of[number] for number in range(1, look.number + 1)) for look in plan.looks]
        for length, of in found.items()
    }


@pytest.mark.parametrize(
    ("haystacks", "expected"),
    [
        (2, [2]),
        (11, [11]),
        (12, [6, 12]),
        (30, [7, 15, 30]),
        (100, [6, 12, 25, 50, 100]),
        (1000, [62, 125, 250, 500, 1000]),
    ],
)
def test_looks_halve_the_haystacks_as_long_as_six_are_left(haystacks: int, expected: list[int]) -> None:
    asked = samples({100: haystacks, 200: haystacks})
    found = counted(plan_looks([asked]), asked)
    assert found == {110: expected, 210: expected}


def test_the_shortest_length_decides_how_many_looks_there_are_and_every_length_is_shared_out() -> None:
    asked = samples({100: 60, 200: 12, 900: 30})
    assert counted(plan_looks([asked]), asked) == {110: [30, 60], 210: [6, 12], 910: [15, 30]}


@pytest.mark.parametrize("haystacks", [1, 2, 12, 30, 100, 5000])
def test_the_error_rate_is_never_spent_twice(haystacks: int) -> None:
    stages = [samples({100: haystacks}), samples({100: 40}, first=haystacks), samples({100: 7}, first=haystacks + 40)]
    first, grown, again = (plan_looks(stages[:number]) for number in (1, 2, 3))
    shares = [sum(look.error_share for look in plan.looks) for plan in (first, grown, again)]
    assert shares == pytest.approx([0.9, 0.95, 0.975])
    assert first.looks[-1].error_share >= 0.675 - 1e-9


def test_a_growth_changes_no_look_that_was_planned_before() -> None:
    stages = [samples({100: 30, 200: 30}), samples({100: 30}, first=30)]
    first, grown = plan_looks(stages[:1]), plan_looks(stages)
    assert grown.looks[: len(first.looks)] == first.looks
    assert {one: grown.first_look[one] for one in first.first_look} == first.first_look
    assert {grown.first_look[one.sample_id] for one in stages[1]} == {4, 5, 6}
    assert [look.number for look in grown.looks] == [1, 2, 3, 4, 5, 6]


def test_the_plan_does_not_depend_on_the_order_of_haystacks_of_other_cells() -> None:
    asked = samples({100: 30, 200: 30})
    turned = samples({200: 30, 100: 30})
    assert plan_looks([asked]).first_look == plan_looks([turned]).first_look
