from __future__ import annotations

from collections import Counter

import pytest
from support.sweeps import Planner

from kveval.measure.haystacks import HaystackSamples, group_by_haystack
from kveval.measure.reuse.share import asked_again


@pytest.fixture
def haystacks(plan_of: Planner) -> list[HaystackSamples]:
    config = {"tasks": ["niah_single", "niah_multikey"], "context_lengths": [512, 1024, 2048]}
    return group_by_haystack(plan_of(samples=30, **config).samples)


@pytest.mark.parametrize(("share", "count"), [(0.01, 3), (0.1, 6), (0.5, 30), (1.0, 60)])
def test_every_length_is_asked_again_and_cells_take_turns(
    haystacks: list[HaystackSamples], share: float, count: int
) -> None:
    chosen = asked_again(haystacks, share, "a")
    assert len({one.haystack_id for one in chosen}) == count
    lengths = Counter(one.cell[0] for one in chosen)
    assert max(lengths.values()) - min(lengths.values()) <= 1
    cells = Counter(one.cell for one in chosen)
    if count >= 6:
        assert len(cells) == 6
        assert max(cells.values()) - min(cells.values()) <= 1


def test_at_least_two_are_asked_again(haystacks: list[HaystackSamples]) -> None:
    of_one_cell = [one for one in haystacks if one.cell == haystacks[0].cell]
    assert len(asked_again(of_one_cell, 0.01, "a")) == 2
    assert len(asked_again(of_one_cell[:1], 0.01, "a")) == 1


def test_another_run_asks_others_and_the_same_run_the_same(haystacks: list[HaystackSamples]) -> None:
    first, again, other = (
        [one.haystack_id for one in asked_again(haystacks, 0.1, run_id)] for run_id in ("a", "a", "b")
    )
    assert first == again != other
    assert [one.haystack_id for one in asked_again(haystacks[::-1], 0.1, "a")] == first
