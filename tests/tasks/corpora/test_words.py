"""Words that needles and generated text are made of."""

from __future__ import annotations

import random

from kveval.tasks.corpora.words import (
    ADJECTIVES,
    GIVEN_NAMES,
    INITIALS,
    MADE_UP_WORD,
    MADE_UP_WORDS,
    NOUNS,
    draw_words,
    made_up_word,
)


def test_no_word_stands_in_a_list_twice():
    for words in (ADJECTIVES, NOUNS, GIVEN_NAMES):
        assert len(set(words)) == len(words)


def test_every_number_makes_another_word_of_six_letters():
    words = {made_up_word(number) for number in range(0, MADE_UP_WORDS, 7)}
    assert len(words) == len(range(0, MADE_UP_WORDS, 7))
    assert all(MADE_UP_WORD.fullmatch(word) for word in words)
    assert made_up_word(0) != made_up_word(1)


def test_words_of_one_initial():
    for initial in INITIALS:
        words = draw_words(50, random.Random(0), initial)
        assert len(set(words)) == 50
        assert {word[0] for word in words} == {initial}


def test_the_same_seed_draws_the_same_words():
    assert draw_words(9, random.Random(4)) == draw_words(9, random.Random(4)) != draw_words(9, random.Random(5))
