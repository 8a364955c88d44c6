from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kveval.errors import ConfigError
from kveval.tasks.builders.draws import draw_names, draw_numbers, is_absent, pair_of_words, seeded, spread
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS


def test_no_name_is_drawn_twice():
    names = draw_names(5000, random.Random(0))
    assert len(set(names)) == 5000


def test_more_names_than_pairs_of_words_are_refused():
    most = len(ADJECTIVES) * len(NOUNS)
    with pytest.raises(ConfigError, match=f"{most + 1} names in one haystack; use at most {most}"):
        draw_names(most + 1, random.Random(0))


def test_a_name_is_an_adjective_and_a_noun():
    assert pair_of_words(0) == f"{ADJECTIVES[0]}-{NOUNS[0]}"
    assert pair_of_words(len(ADJECTIVES) * len(NOUNS) - 1) == f"{ADJECTIVES[-1]}-{NOUNS[-1]}"


def test_numbers_have_the_asked_digits():
    numbers = draw_numbers(900, 3, random.Random(0))
    assert sorted(numbers) == [str(number) for number in range(100, 1000)]


@given(count=st.integers(1, 200), data=st.data())
def test_spread_indexes_differ_and_exist(count, data):
    asked = data.draw(st.integers(1, count))
    indexes = spread(asked, count)
    assert len(set(indexes)) == asked
    assert 0 <= min(indexes) <= max(indexes) < count


@given(samples=st.integers(0, 300), share=st.floats(0, 1))
def test_exactly_the_absent_share_of_samples_is_absent(samples, share):
    assert sum(is_absent(number, share) for number in range(samples)) == int(samples * share)


def test_the_same_address_gives_the_same_numbers_everywhere():
    assert seeded("niah_single", 4096, 3, 0).getrandbits(32) == 1110371562
    assert seeded("niah_single", 4096, 3, 1).getrandbits(32) != 1110371562


def test_addresses_do_not_run_together():
    assert seeded("a", 1, 23).random() != seeded("a", 12, 3).random()
    assert seeded("a", "1").random() != seeded("a", 1).random()
