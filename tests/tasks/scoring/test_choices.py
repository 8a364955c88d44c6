from __future__ import annotations

import pytest

from kveval.tasks.scoring.choices import chooses, is_choice


@pytest.mark.parametrize("text", ["A", "(A)", "A.", "**A**", "The answer is A.", "A is right", "A because of B"])
def test_a_choice_is_named_as_it_is_written(text):
    assert chooses(text, "A")


@pytest.mark.parametrize("text", ["A city", "a", "B", "a plan", "A+", "A's", "AB"])
def test_a_word_of_a_sentence_names_no_choice(text):
    assert not chooses(text, "A")


def test_only_words_that_prose_is_full_of_need_their_spelling():
    assert is_choice(["a"])
    assert is_choice(["the"])
    assert not is_choice(["b"])
    assert not is_choice([])
