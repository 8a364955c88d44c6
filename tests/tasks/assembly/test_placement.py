from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.tasks.assembly.filler import FillerTokens
from kveval.tasks.assembly.placement import Placed, end_of_filler, interleave, opener, positions
from kveval.tasks.builders.sources import Cut

CUTS = st.lists(
    st.sampled_from([Cut.CHARACTER, Cut.WORD, Cut.WORD, Cut.SENTENCE, Cut.PIECE]), min_size=20, max_size=400
)


def words(count: int, sentence_every: int = 0) -> np.ndarray:
    cuts = np.full(count, Cut.WORD, np.int8)
    if sentence_every:
        cuts[::sentence_every] = Cut.SENTENCE
    return cuts


def test_filler_ends_with_a_sentence_within_eight_tokens_else_with_a_word():
    cuts = words(100)
    assert end_of_filler(cuts, 50) == 50
    cuts[43] = Cut.SENTENCE
    assert end_of_filler(cuts, 50) == 43
    assert end_of_filler(cuts, 52) == 52
    cuts[48:60] = Cut.NEVER
    assert end_of_filler(cuts, 52) == 47


@given(cuts=CUTS, room=st.integers(0, 19))
def test_filler_never_ends_late_and_at_most_eight_tokens_early(cuts, room):
    assert room - 8 <= end_of_filler(np.array(cuts, np.int8), room) <= room


def test_a_needle_takes_the_nearest_sentence_end_within_one_percent():
    cuts = words(1001, sentence_every=7)
    assert positions([50.0], [10], [1010], cuts, Cut.WORD, None) == [(497, 0)]


def test_a_needle_takes_the_nearest_word_where_no_sentence_ends():
    assert positions([50.0], [10], [1010], words(1001), Cut.WORD, None) == [(500, 0)]


def test_needles_take_the_room_of_those_before_them_into_account():
    places = positions([25.0, 75.0], [100, 100], [1200, 1200], words(1001), Cut.WORD, None)
    assert places == [(275, 0), (725, 1)]
    starts = [275, 725 + 100]
    assert [100 * start / 1100 for start in starts] == [25.0, 75.0]


def test_dense_needles_push_each_other_no_further_than_they_must():
    cuts = words(201, sentence_every=50)
    places = positions([10.0, 10.1, 10.2], [90, 90, 90], [470, 470, 470], cuts, Cut.WORD, None)
    assert [at for at, _ in places] == [38, 38, 38]


@given(
    cuts=CUTS,
    needles=st.lists(st.tuples(st.floats(0, 100), st.integers(1, 40)), min_size=1, max_size=8),
    opens=st.booleans(),
)
def test_every_needle_is_placed_in_order_of_depth(cuts, needles, opens):
    depths, tokens = [depth for depth, _ in needles], [length for _, length in needles]
    context_tokens = len(cuts) - 1 + sum(tokens)
    first = depths.index(min(depths)) if opens else None
    places = positions(depths, tokens, [context_tokens] * len(tokens), np.array(cuts, np.int8), Cut.WORD, first)
    assert sorted(k for _, k in places) == list(range(len(needles)))
    assert [at for at, _ in places] == sorted(at for at, _ in places)
    assert all(0 <= at <= len(cuts) - 1 for at, _ in places)
    assert (places[0][0] == 0) == opens


def test_interleaving_keeps_every_token():
    filler = FillerTokens(np.arange(10, dtype=np.int32), words(10))
    planted = [np.array([100, 101], np.int32), np.array([200], np.int32)]
    context, placed = interleave(filler, planted, [(3, 1), (3, 0)], 8)
    assert context.tolist() == [0, 1, 2, 200, 100, 101, 3, 4, 5, 6, 7]
    assert placed == {1: Placed(3, 1), 0: Placed(4, 2)}


@pytest.mark.parametrize(
    ("depths", "context_tokens", "expected"),
    [([], 100, None), ([0.0], 1000, 0), ([50.0, 0.1], 1000, 1), ([50.0, 0.3], 1000, None), ([0.1], 100_000, None)],
)
def test_a_needle_opens_the_context_when_next_to_nothing_would_stand_before_it(depths, context_tokens, expected):
    assert opener(depths, context_tokens) == expected


def test_depth_counts_the_context_beside_the_needle():
    assert Placed(0, 10).depth_percent(110) == 0.0
    assert Placed(50, 10).depth_percent(110) == 50.0
    assert Placed(100, 10).depth_percent(110) == 100.0
    assert Placed(0, 10).depth_percent(10) == 0.0
