"""Counting: the words that appear most often in a long list, as RULER's common and frequent words (arXiv 2404.06654).

With one question a haystack, the question is RULER's and about the whole list. With more, each is about the words
that begin with one letter, so that all questions need the whole list and no two have an answer in common. Words are
made up (see `made_up_word`): there are enough of them for any length, and none is likelier than another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question
from kveval.tasks.builders.draws import seeded
from kveval.tasks.corpora.words import INITIALS, MADE_UP_WORDS, draw_words, made_up_word
from kveval.tasks.dataset import HaystackDataset

_WORDS_A_PIECE = 60

_DOTS = "..."
_DOTS_A_BLOCK = 36
_ANSWERS_A_BLOCK = (9, 5, 3)
_RIVALS, _RIVAL_A_BLOCK = 2, 2
_TAIL, _TAIL_A_BLOCK = 20, 4
_PLANTED = _ANSWERS_A_BLOCK[-1]


@dataclass(frozen=True)
class WordList:
    """Filler words that all appear `repeats` times, close together. No word is in two pieces."""

    repeats: int
    name = "word list"

    def text(self, index: int) -> str:
        return _piece(index, self.repeats)

    def order(self, rng: random.Random) -> Iterator[int]:
        pieces = MADE_UP_WORDS // _WORDS_A_PIECE
        return iter(rng.sample(range(pieces), pieces))


@lru_cache(maxsize=8192)
def _piece(index: int, repeats: int) -> str:
    words = [made_up_word(index * _WORDS_A_PIECE + i) for i in range(_WORDS_A_PIECE)] * repeats
    seeded("word list", index, repeats).shuffle(words)
    return " " + " ".join(words)


class CodedText:
    """Filler whose word counts fall as in RULER's frequent words: dots first, then three words, then all others.

    Args:
        vocabularies: for each, the words in order of frequency: three answers, rivals, and the tail.
        seed: of the order of words.
    """

    name = "coded text"

    def __init__(self, vocabularies: Sequence[Sequence[str]], seed: int) -> None:
        self._vocabularies = vocabularies
        self._seed = seed
        self._pieces: dict[int, str] = {}

    def text(self, index: int) -> str:
        if index not in self._pieces:
            block = index // len(self._vocabularies)
            for i, words in enumerate(self._block(block)):
                self._pieces[block * len(self._vocabularies) + i] = " " + " ".join(words)
        return self._pieces[index]

    def order(self, rng: random.Random) -> Iterator[int]:  # noqa: ARG002 (the seed has ordered the words already)
        return count()

    def _block(self, number: int) -> Iterator[list[str]]:
        """Makes one piece for each vocabulary, with the words of all of them mixed."""
        words = []
        for vocabulary in self._vocabularies:
            rest = len(_ANSWERS_A_BLOCK)
            rivals, tail = vocabulary[rest : rest + _RIVALS], vocabulary[rest + _RIVALS :]
            words += [_DOTS] * _DOTS_A_BLOCK + [*rivals] * _RIVAL_A_BLOCK
            words += [word for word, times in zip(vocabulary, _ANSWERS_A_BLOCK, strict=False) for _ in range(times)]
            words += [tail[(number * _TAIL_A_BLOCK + i) % _TAIL] for i in range(_TAIL_A_BLOCK)]
        seeded("coded text", self._seed, number).shuffle(words)
        size = len(words) // len(self._vocabularies)
        return (words[i : i + size] for i in range(0, len(words), size))


@dataclass(frozen=True)
class CommonWords(Builder):
    """A list in which few words appear `frequency` times and all others at most `repeats` times.

    Attributes:
        words: common words in a haystack, divided among its questions; at least one each.
        frequency: times each common word appears.
        repeats: times every other word appears, below `frequency`.
    """

    words: int = 10
    frequency: int = 30
    repeats: int = 3

    def __post_init__(self) -> None:
        if self.repeats >= self.frequency:
            raise ConfigError(f"repeats={self.repeats}; use a number below frequency={self.frequency}")

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        each = max(self.words // len(numbers), 1)
        groups = [draw_words(each, rng, initial) for initial in _initials(len(numbers), rng)]
        planted = [word for group in groups for word in group]
        order = [word for _ in range(self.frequency) for word in rng.sample(planted, len(planted))]
        needles = _at_random_places(order, depth_shift, rng)
        questions = [_question(group, planted, "common", len(groups) > 1) for group in groups]
        return Haystack(needles, questions, frozenset(planted), WordList(self.repeats))


@dataclass(frozen=True)
class FrequentWords(Builder):
    """Coded text of any length whose three most frequent words, dots aside, are the same wherever it is cut.

    Of every vocabulary a block has the third answer 3 times and any other word at most twice; and each answer is
    planted 3 times more, so the third answer leads after any number of whole and broken blocks.
    """

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        size = len(_ANSWERS_A_BLOCK) + _RIVALS + _TAIL
        vocabularies = [draw_words(size, rng, initial) for initial in _initials(len(numbers), rng)]
        groups = [vocabulary[: len(_ANSWERS_A_BLOCK)] for vocabulary in vocabularies]
        known = [word for words in vocabularies for word in words[: len(_ANSWERS_A_BLOCK) + _RIVALS]]
        planted = [word for group in groups for word in group]
        order = [word for _ in range(_PLANTED) for word in rng.sample(planted, len(planted))]
        questions = [_question(group, known, "frequent", len(groups) > 1) for group in groups]
        text = CodedText(vocabularies, rng.getrandbits(32))
        return Haystack(_at_random_places(order, depth_shift, rng), questions, frozenset(), text)


def _initials(questions: int, rng: random.Random) -> Sequence[str | None]:
    if questions == 1:
        return (None,)
    if questions > len(INITIALS):
        raise ConfigError(f"questions_per_haystack={questions}; use at most {len(INITIALS)} to count words")
    return rng.sample(INITIALS, questions)


def _at_random_places(words: Sequence[str], depth_shift: float, rng: random.Random) -> list[Needle]:
    """Plants words in their order, each at a random place in its own stretch of the context."""
    return [Needle(word, 100 * (k + (depth_shift + rng.random()) % 1) / len(words)) for k, word in enumerate(words)]


def _question(group: Sequence[str], planted: Sequence[str], adjective: str, by_initial: bool) -> Question:
    several = len(group) > 1
    words = f"{len(group)} most {adjective} words" if several else f"most {adjective} word"
    which = f' that begin{"" if several else "s"} with the letter "{group[0][0]}"' if by_initial else ""
    verb = "are" if several else "is"
    return Question(
        {
            "question": f"What {verb} the {words}{which} in the list?",
            "answer_lead": f"The {words}{which} in the list {verb}",
        },
        tuple(group),
        distractors=tuple(word for word in planted if word not in group),
    )


common_words = HaystackDataset(CommonWords)
frequent_words = HaystackDataset(FrequentWords)
