"""Questions answered by documents among many: SQuAD's need one of them, HotpotQA's two.

The documents that answer are the needles, each whole and at a depth of its own; all other documents are filler. No
answer occurs in another document, so a question is answered at its depth or not at all.
"""

from __future__ import annotations

import random
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack, Needle, Question, depths_percent
from kveval.tasks.builders.draws import is_absent
from kveval.tasks.builders.sources import Cut, TextSource
from kveval.tasks.corpora.documents import (
    Document,
    Query,
    hotpotqa,
    mixed_library,
    squad,
    wikipedia_library,
)
from kveval.tasks.dataset import HaystackDataset
from kveval.tasks.scoring.text import PROSE, holds

NOT_STATED = "not stated"
_TOKENS_PER_QUESTION = 400  # its documents, with as much again beside them
_SHARES = 500
_BARE = re.compile(r"^\W*(?:(?:the|an?)\s+)?\W*|\W+$", re.IGNORECASE)
_GOLDEN_RATIO = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class _Asked:
    """A query as one haystack asks it.

    Attributes:
        planted: documents put into the haystack for it.
        secrets: answers that nothing else in the haystack may hold.
        absent: the planted documents do not answer it.
    """

    query: Query
    planted: tuple[Document, ...]
    secrets: tuple[str, ...]
    absent: bool = False

    @cached_property
    def texts(self) -> list[str]:
        return [PROSE.normalize(f"{document.title}\n{document.text}") for document in self.planted]

    @cached_property
    def normal_secrets(self) -> list[str]:
        return [PROSE.normalize(secret) for secret in self.secrets]

    @property
    def ids(self) -> set[str]:
        return {document.id for document in (*self.planted, *self.query.gold)}

    def told_by(self, other: _Asked) -> bool:
        return any(holds(text, secret) for text in other.texts for secret in self.normal_secrets)

    def fits_beside(self, other: _Asked) -> bool:
        return self.ids.isdisjoint(other.ids) and not self.told_by(other) and not other.told_by(self)


@dataclass(frozen=True)
class DocumentTask(Builder):
    """Plants the documents of each question. Subclasses choose the queries and the documents around.

    Attributes:
        absent_share: share of questions that the documents do not answer, in [0, 1].
    """

    absent_share: float = 0.0

    def most_questions(self, context_length: int) -> int:
        """Counts questions whose documents fit into a context and leave space for others."""
        return max(context_length // _TOKENS_PER_QUESTION, 1)

    def haystack(self, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
        asked = self._choose(numbers, rng)
        depths = _depths(asked, numbers, depth_shift, rng)
        needles: list[Needle] = []
        questions: list[Question] = []
        for each, own_depths in zip(asked, depths, strict=True):
            own = tuple(range(len(needles), len(needles) + len(each.planted)))
            needles += [
                Needle(str(document), depth, lead="\n\n")
                for document, depth in zip(each.planted, own_depths, strict=True)
            ]
            questions.append(_question(each, own, asked))
        forbidden = {_BARE.sub("", secret) for each in asked for secret in each.secrets}
        forbidden |= {f"[{document_id}]" for each in asked for document_id in each.ids}
        return Haystack(needles, questions, frozenset(forbidden), self.library(), Cut.PIECE)

    @abstractmethod
    def library(self) -> TextSource:
        """Returns the documents around the planted ones."""

    @abstractmethod
    def candidates(self, number: int, rng: random.Random) -> Iterator[_Asked]:
        """Yields queries for a sample, the best choice first."""

    def _choose(self, numbers: range, rng: random.Random) -> list[_Asked]:
        asked: list[_Asked] = []
        for number in numbers:
            fitting = (
                candidate
                for candidate in self.candidates(number, rng)
                if all(candidate.fits_beside(other) for other in asked)
            )
            chosen = next(fitting, None)
            if chosen is None:
                raise ConfigError(f"questions_per_haystack={len(numbers)}; only {len(asked)} can share these documents")
            asked.append(chosen)
        return asked


class SingleHop(DocumentTask):
    """SQuAD: one document answers a question.

    Where the answer is absent, half of the time the question is one of SQuAD's own without an answer and its document
    is there; else the document that answers it is left out and another of the same article is there.
    """

    def library(self) -> TextSource:
        return mixed_library()

    def candidates(self, number: int, rng: random.Random) -> Iterator[_Asked]:
        collection = squad()
        if not is_absent(number, self.absent_share):
            for query in _share([query for query in collection.queries if query.answers], number, rng):
                yield _Asked(query, query.gold, query.answers)
        elif int(number * self.absent_share) % 2:
            for query in _share([query for query in collection.queries if not query.answers], number, rng):
                yield _Asked(query, query.gold, (), absent=True)
        else:
            for query in _share([query for query in collection.queries if query.answers], number, rng):
                article = [document for document in collection.documents if document.title == query.gold[0].title]
                for document in rng.sample(article, len(article)):
                    removed = _Asked(query, (document,), query.answers, absent=True)
                    if document.id != query.gold[0].id and not removed.told_by(removed):
                        yield removed
                        break


class TwoHop(DocumentTask):
    """HotpotQA: it takes two documents to answer a question.

    Where the answer is absent, the document that holds it is left out and the other is there.
    """

    def library(self) -> TextSource:
        return wikipedia_library()

    def candidates(self, number: int, rng: random.Random) -> Iterator[_Asked]:
        for query in _share(hotpotqa().queries, number, rng):
            whole = _Asked(query, query.gold, query.answers)
            if not is_absent(number, self.absent_share):
                yield whole
                continue
            left = tuple(
                document
                for document, text in zip(query.gold, whole.texts, strict=True)
                if not any(holds(text, secret) for secret in whole.normal_secrets)
            )
            if len(left) == 1:
                yield _Asked(query, left, query.answers, absent=True)


def _share(queries: Sequence[Query], number: int, rng: random.Random) -> Iterator[Query]:
    """Yields a sample's own share of queries in random order, then all others, so that a cell hardly repeats one."""
    own = list(queries[number % _SHARES :: _SHARES])
    yield from rng.sample(own, len(own))
    yield from rng.sample(queries, len(queries))


def _depths(asked: Sequence[_Asked], numbers: range, depth_shift: float, rng: random.Random) -> list[list[float]]:
    """Draws the depths of the documents of every question.

    First documents, second documents, and those of questions without an answer have a grid over the context each, in
    an order and with a shift of their own, so that the depth of one tells nothing about another.
    """
    shifts = _depth_shifts(numbers, depth_shift)
    depths: list[list[float]] = [[] for _ in asked]
    for absent in (False, True):
        group = [i for i, each in enumerate(asked) if each.absent is absent]
        for _ in range(max((len(asked[i].planted) for i in group), default=0)):
            grid = depths_percent(len(group), next(shifts))
            for i, depth in zip(group, rng.sample(grid, len(grid)), strict=True):
                depths[i].append(depth)
    return depths


def _depth_shifts(numbers: range, depth_shift: float) -> Iterator[float]:
    """Yields the given shift, then others in [0, 1) that are as even over the haystacks of a cell.

    Steps of the golden ratio from haystack to haystack: https://en.wikipedia.org/wiki/Low-discrepancy_sequence
    """
    yield depth_shift
    haystack = numbers.start // max(len(numbers), 1)
    for k in count(1):
        yield (0.5 + k * haystack * _GOLDEN_RATIO) % 1


def _question(each: _Asked, own: tuple[int, ...], asked: Sequence[_Asked]) -> Question:
    query = each.query
    wrong = [other.query.answers[0] for other in asked if other is not each and not other.absent]
    wrong = [answer for answer in wrong if any(c.isupper() or c.isdigit() for c in answer)]
    if each.absent:
        wrong += [*query.plausible, *query.answers]
    right = () if each.absent else query.answers
    distractors = tuple(
        answer for answer in wrong if not any(PROSE.names(text, answer) for text in (query.question, *right))
    )
    fields = {
        "question": query.question,
        "document_ids": [] if each.absent else [document.id for document in each.planted],
    }
    if each.absent:
        return Question(fields, (NOT_STATED,), (), distractors, absent=True)
    return Question(fields, right, own, distractors)


single_hop = HaystackDataset(SingleHop)
two_hop = HaystackDataset(TwoHop)
