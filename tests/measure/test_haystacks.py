from __future__ import annotations

import random
from collections import Counter

import pytest
from support.samples import sample

from kveval.measure.haystacks import HaystackSamples, group_by_haystack, spread_over_time


def test_groups_keep_the_order_of_samples_short_contexts_first() -> None:
    samples = [
        sample("long", 0, shared=900),
        sample("a", 0),
        sample("b", 0),
        sample("a", 1),
        sample("long", 1, shared=901),
    ]
    groups = group_by_haystack(samples)
    assert [g.haystack_id for g in groups] == ["a", "b", "long"]
    assert [[s.sample_id for s in g.samples] for g in groups] == [["a-0", "a-1"], ["b-0"], ["long-0", "long-1"]]


def cells(counts: dict[int, int]) -> list[HaystackSamples]:
    """So many haystacks of two questions each, by the tokens they share."""
    return group_by_haystack(
        sample(f"{shared}-{number}", question, shared=shared)
        for shared, count in counts.items()
        for number in range(count)
        for question in range(2)
    )


@pytest.mark.parametrize(
    "counts",
    [{100: 25, 200: 25, 300: 25}, {100: 40, 200: 10, 900: 3, 5000: 1}, dict.fromkeys(range(100, 150), 1), {9: 1}],
)
def test_every_cell_is_asked_about_the_same_share_at_any_moment(counts: dict[int, int]) -> None:
    asked = spread_over_time(cells(counts))
    assert Counter(one.cell[0] - 10 for one in asked) == counts
    assert all(len(one.samples) == 2 for one in asked)
    so_far: Counter[int] = Counter()
    for number, one in enumerate(asked, start=1):
        so_far[one.cell[0] - 10] += 1
        for shared, count in counts.items():
            assert abs(so_far[shared] - count * number / len(asked)) < 2


def test_the_longest_contexts_are_not_asked_last() -> None:
    asked = [one.cell[0] for one in spread_over_time(cells(dict.fromkeys((512, 1024, 2048, 4096), 10)))]
    half = len(asked) // 2
    assert sum(asked[:half]) == pytest.approx(sum(asked[half:]), rel=0.15)
    assert spread_over_time(cells(dict.fromkeys(range(100, 110), 1)))[-1].cell[0] not in (110, 119)


def test_the_order_of_asking_depends_on_the_haystacks_alone() -> None:
    haystacks = cells({100: 7, 200: 5})
    samples = [one for haystack in haystacks for one in haystack.samples]
    again = spread_over_time(group_by_haystack(samples))
    assert [one.haystack_id for one in again] == [one.haystack_id for one in spread_over_time(haystacks)]
    # A part of the samples is asked in the same order.
    kept = {one.haystack_id for one in random.Random(0).sample(haystacks, 6)}
    part = [one.haystack_id for one in again if one.haystack_id in kept]
    assert [one for one in (h.haystack_id for h in spread_over_time(haystacks)) if one in kept] == part
