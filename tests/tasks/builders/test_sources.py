from __future__ import annotations

import random
from itertools import islice

from kveval.tasks.builders.sources import ElasticSource, NumberedText


class Words(ElasticSource):
    name = "words"

    def order(self, rng):
        return iter(range(3))

    def prose(self, index):
        return f"piece {index}"

    def stretched(self, index, prose):
        return f"\n<{prose}>"


def test_the_text_of_an_elastic_piece_is_its_own_prose():
    assert Words().text(2) == "\n<piece 2>"


def test_numbered_pieces_end_when_all_are_used():
    source = NumberedText("lines", str, 10_000)
    order = list(source.order(random.Random(0)))
    assert sorted(order) == list(range(10_000))
    assert order != sorted(order)


def test_numbered_pieces_without_a_count_never_end():
    order = list(islice(NumberedText("lines", str).order(random.Random(0)), 20_000))
    assert len(set(order)) == 20_000


def test_a_numbered_piece_is_made_from_its_number():
    assert NumberedText("lines", str).text(7) == "7"
