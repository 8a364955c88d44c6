from __future__ import annotations

import random
from itertools import islice

from kveval.tasks.corpora.generated import GeneratedText


def test_paragraphs_are_made_from_their_own_number():
    assert GeneratedText().text(7) == GeneratedText().text(7)
    texts = {GeneratedText().text(i) for i in range(2000)}
    assert len(texts) == 2000


def test_it_holds_nothing_a_needle_could_be_taken_for():
    text = "".join(GeneratedText().text(i) for i in range(500))
    assert not any(character.isdigit() or character == "-" for character in text)


def test_it_never_ends_and_never_repeats():
    order = list(islice(GeneratedText().order(random.Random(0)), 10_000))
    assert len(set(order)) == 10_000
    assert order != list(islice(GeneratedText().order(random.Random(1)), 10_000))
