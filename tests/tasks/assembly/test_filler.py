from __future__ import annotations

import random

import numpy as np
import pytest

from kveval.errors import PlanError
from kveval.tasks.assembly.filler import Filler
from kveval.tasks.assembly.tokenizer import StandInTokenizer
from kveval.tasks.builders.sources import Cut


class Words:
    """A source of known pieces."""

    name = "words"

    def __init__(self, pieces):
        self.pieces = pieces
        self.read = 0

    def text(self, index):
        return self.pieces[index]

    def order(self, rng):
        return iter(rng.sample(range(len(self.pieces)), len(self.pieces)))


class Counting(StandInTokenizer):
    encoded = 0

    def encode(self, texts):
        self.encoded += len(texts)
        return super().encode(texts)


def run_of(pieces, tokens=1, forbidden=(), opens_context=False):
    return Filler(Words(pieces), StandInTokenizer()).draw(
        random.Random(0), tokens, forbidden, opens_context=opens_context
    )


def cuts_in(text):
    """The text with a mark for every cut: ¦ piece, | sentence, / word."""
    run = run_of([text] * 40)
    marks = {Cut.PIECE: "¦", Cut.SENTENCE: "|", Cut.WORD: "/"}
    tokenizer, seen = StandInTokenizer(), ""
    for token, cut in zip(run.ids, run.cuts, strict=True):
        seen += marks.get(Cut(cut), "") + tokenizer.decode([token])
    return seen[1:].split("¦")[0]


def test_text_is_cut_between_words_and_best_between_sentences():
    assert cuts_in("One two. Then three, no? Yes.") == "One/ two.| Then/ three,/ no?| Yes."
    assert cuts_in('He said "no." She left. e.g. this') == 'He/ said/ "no."| She/ left./ e.g./ this'
    assert cuts_in("a = 1\nb = 2\n") == "a/ =/ 1|\nb/ =/ 2|\n"


def test_a_character_is_never_cut():
    run = run_of(["\n\n" + "ø" * 3 + "word" * 20])
    assert Cut.NEVER not in run.cuts  # the stand-in has a token per character outside ASCII


def test_every_piece_is_tokenized_once():
    tokenizer = Counting()
    filler = Filler(Words([f"\n\nPiece number {i}." for i in range(100)]), tokenizer)
    for seed in range(5):
        filler.draw(random.Random(seed), 300, (), opens_context=False)
    assert tokenizer.encoded <= 100


def test_runs_differ_by_seed_and_repeat_nothing():
    pieces = [f"\n\nPiece number {i:03}." for i in range(100)]
    first, second = (
        Filler(Words(pieces), StandInTokenizer()).draw(random.Random(s), 400, (), opens_context=False) for s in (1, 2)
    )
    assert not np.array_equal(first.ids[:50], second.ids[:50])
    said = StandInTokenizer().decode(first.ids).split("\n\n")[1:]
    assert len(set(said)) == len(said)
    with pytest.raises(PlanError, match="'words' ends after"):
        run_of(pieces, 10_000)


def test_the_context_does_not_open_with_a_separator():
    opened = run_of(["\n\nAlone here."] * 50, 20, opens_context=True)
    assert StandInTokenizer().decode(opened.ids).startswith("Alone here.\n\nAlone here.")


def test_pieces_that_say_something_forbidden_are_left_out():
    pieces = [f"\n\nPiece {i}: the Secret is {i}." if i % 2 else f"\n\nPiece {i}." for i in range(100)]
    said = StandInTokenizer().decode(run_of(pieces, 100, {"the secret is"}).ids)
    assert "Secret" not in said


def test_something_forbidden_is_found_across_pieces():
    pieces = [" and then the", " end comes"] * 50
    said = StandInTokenizer().decode(run_of(pieces, 60, {"the end"}).ids)
    assert "the end" not in said
