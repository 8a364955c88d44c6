"""HotpotQA's and SQuAD's paragraphs as documents with ids and titles, and the questions asked about them.

Both come from the pinned long-context package and are read once per process. A document keeps its id and its text in
every haystack, so it is tokenized once; ids are unique, drawn at random, and tell nothing about what a document holds.
"""

from __future__ import annotations

import contextlib
import html
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kveval.downloads import cache_directory
from kveval.errors import StorageError
from kveval.run.storage import storage, to_json, write_atomically
from kveval.tasks.builders.draws import seeded
from kveval.tasks.builders.sources import TextSource
from kveval.tasks.corpora.texts import HOTPOTQA, LONG_CONTEXT, SQUAD
from kveval.tasks.scoring.text import PROSE

DOCUMENT_ID = re.compile(r"(?<![^\W_])([A-HJ-NP-W])-?(\d{4})(?![^\W_])", re.IGNORECASE)
"""Matches an id in an output: one letter and four digits, so that it is neither a year nor a value."""

_ID_LETTERS = "ABCDEFGHJKLMNPQRSTUVW"
_FOUR_DIGITS = range(1000, 10000)
_HOTPOTQA_IDS = 68_000
_SQUAD_IDS = 2_000

_SHORTEST_ANSWER_CHARACTERS = 4
_LONGEST_ANSWER_WORDS = 6
_LONGEST_ANSWER_CHARACTERS = 60
_MOST_QUESTIONS_WITH_ONE_ANSWER = 3
_LONGEST_EVIDENCE_CHARACTERS = 1000
_LONG_NUMBER = re.compile(r"\d{5}|\d[,.]\d{3}")
_NAME_OR_NUMBER = re.compile(r"(?<=[\w,] )[A-Z\d]")
_REMARK = re.compile(r"\s*\([^()]*\)|^(?:about|around|approximately|nearly|almost|roughly|circa)\s+")
_PLACE_IN_PLACE = re.compile(r"([A-Z][^\d,]+), (?!.* (?:and|or) )[A-Z][^\d,]+")
_ASKS_FOR_PLACE = re.compile(
    r"\b(?:where|city|town|county|suburb|village|located|location|based|born)\b", re.IGNORECASE
)
_LAYOUT = 1


class Document(NamedTuple):
    """One paragraph. Its id, a letter and four digits, is unique over all documents."""

    id: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"Document [{self.id}] {self.title}\n{self.text}"


class Query(NamedTuple):
    """A question about documents.

    Attributes:
        answers: references, any of which is right; empty when the documents do not answer the question.
        gold: the documents that answer it, in the order they are reasoned with; or the one that only seems to.
        plausible: what a careless reader answers where the documents do not.
    """

    question: str
    answers: tuple[str, ...]
    gold: tuple[Document, ...]
    plausible: tuple[str, ...]


class Collection(NamedTuple):
    """Documents of one data set and the usable questions about them, always in the same random order."""

    documents: tuple[Document, ...]
    queries: tuple[Query, ...]


class Library:
    """A `TextSource` of documents, shuffled anew for every haystack. All shelves are equally frequent until used up."""

    def __init__(self, name: str, *shelves: Sequence[Document]) -> None:
        self.name = name
        self._documents = [document for shelf in shelves for document in shelf]
        self._sizes = [len(shelf) for shelf in shelves]

    def text(self, index: int) -> str:
        return f"\n\n{self._documents[index]}"

    def order(self, rng: random.Random) -> Iterator[int]:
        shelves, first = [], 0
        for size in self._sizes:
            shelf = list(range(first, first + size))
            rng.shuffle(shelf)
            shelves.append(shelf)
            first += size
        while shelves:
            yield rng.choice(shelves).pop()
            shelves = [shelf for shelf in shelves if shelf]


@lru_cache(maxsize=1)
def wikipedia_library() -> TextSource:
    """Returns HotpotQA's documents: opening paragraphs of Wikipedia articles, about 9 million tokens."""
    return Library("hotpotqa documents", hotpotqa().documents)


@lru_cache(maxsize=1)
def mixed_library() -> TextSource:
    """Returns SQuAD's documents among HotpotQA's, half and half while they last, so that neither kind stands out."""
    return Library("squad and hotpotqa documents", squad().documents, hotpotqa().documents)


@lru_cache(maxsize=1)
def hotpotqa() -> Collection:
    """Reads the development set of HotpotQA (arXiv 1809.09600): questions that need two documents each.

    Questions that compare two things are left out, since they name their possible answers.
    """
    return _collection("hotpotqa", _read_hotpotqa, _ids()[:_HOTPOTQA_IDS], lambda _: True)


@lru_cache(maxsize=1)
def squad() -> Collection:
    """Reads the development set of SQuAD 2.0 (arXiv 1806.03822): questions about one document, half without answer.

    Questions that name nothing are left out: they make sense only beside their document ("What was the result?").
    """
    names_something = _NAME_OR_NUMBER.search
    return _collection(
        "squad", _read_squad, _ids()[_HOTPOTQA_IDS:], lambda query: bool(names_something(query.question))
    )


def _collection(
    name: str, read: Callable[[], dict[str, Any]], ids: Sequence[str], wanted: Callable[[Query], bool]
) -> Collection:
    raw = _kept(name, read)
    documents = tuple(Document(id_, title, text) for id_, (title, text) in zip(ids, raw["documents"], strict=False))
    queries = [
        Query(question, tuple(answers), tuple(documents[i] for i in gold), tuple(plausible))
        for question, answers, gold, plausible in raw["queries"]
    ]
    fit = [query for query in _fit(queries) if wanted(query)]
    seeded("order of queries", name).shuffle(fit)
    return Collection(documents, tuple(fit))


def _kept(name: str, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Returns what `read` returns, from the cache: the package's JSON takes seconds to parse and twice the memory."""
    path = cache_directory() / "parsed" / f"{name}-{LONG_CONTEXT.sha256[:16]}-{_LAYOUT}.json"
    with contextlib.suppress(OSError, ValueError):
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return kept
    fresh = read()
    with contextlib.suppress(StorageError), storage(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, to_json(fresh))
    return fresh


def _read_hotpotqa() -> dict[str, Any]:
    rows = json.loads(LONG_CONTEXT.read(HOTPOTQA))
    texts = {title: "".join(sentences) for row in rows for title, sentences in row["context"]}
    number = {title: i for i, title in enumerate(texts)}
    queries: list[tuple[str, list[str], list[int], list[str]]] = []
    for row in rows:
        if row["type"] == "bridge":
            gold = dict.fromkeys(number[title] for title, _ in row["supporting_facts"])
            queries.append((_plain(row["question"]), [_plain(row["answer"])], list(gold), []))
    return {"documents": [(_plain(title), _plain(text)) for title, text in texts.items()], "queries": queries}


def _read_squad() -> dict[str, Any]:
    documents: list[tuple[str, str]] = []
    queries: list[tuple[str, list[str], list[int], list[str]]] = []
    for article in json.loads(LONG_CONTEXT.read(SQUAD))["data"]:
        title = _plain(article["title"].replace("_", " "))
        for paragraph in article["paragraphs"]:
            for row in paragraph["qas"]:
                answers, plausible = (
                    list(dict.fromkeys(_plain(answer["text"]) for answer in row.get(key) or ()))
                    for key in ("answers", "plausible_answers")
                )
                queries.append((_plain(row["question"]), answers, [len(documents)], plausible))
            documents.append((title, _plain(paragraph["context"])))
    return {"documents": documents, "queries": queries}


@lru_cache(maxsize=1)
def _ids() -> list[str]:
    count = len(_FOUR_DIGITS)
    numbers = seeded("document ids").sample(range(len(_ID_LETTERS) * count), _HOTPOTQA_IDS + _SQUAD_IDS)
    return [f"{_ID_LETTERS[number // count]}{_FOUR_DIGITS[number % count]}" for number in numbers]


def _fit(queries: Sequence[Query]) -> Iterator[Query]:
    """Yields queries whose answers are hard to guess: not yes or no, short, common, or in the question."""
    plain = [{PROSE.normalize(answer) for answer in query.answers} for query in queries]
    asked = Counter(answer for answers in plain for answer in answers)
    for query, forms in zip(queries, plain, strict=True):
        every = [form for answer in query.answers for form in (answer, *_shorter(query.question, answer))]
        answers = tuple(answer for answer in dict.fromkeys(every) if _is_telling(answer))
        common = any(asked[form] > _MOST_QUESTIONS_WITH_ONE_ANSWER for form in forms)
        told = any(PROSE.names(query.question, answer) for answer in every)
        long = sum(len(document.text) for document in query.gold) > _LONGEST_EVIDENCE_CHARACTERS
        if bool(answers) == bool(query.answers) and not (common or told or long or _LONG_NUMBER.search(query.question)):
            yield query._replace(answers=answers)


def _shorter(question: str, answer: str) -> Iterator[str]:
    """Yields shorter names of the same thing: without a remark in brackets or "about"; a place without its country."""
    bare = _REMARK.sub("", answer)
    if bare != answer:
        yield bare
    if (match := _PLACE_IN_PLACE.fullmatch(answer)) and _ASKS_FOR_PLACE.search(question):
        yield match[1]


def _is_telling(answer: str) -> bool:
    plain = PROSE.normalize(answer)
    long_enough = len(plain.replace(" ", "")) >= _SHORTEST_ANSWER_CHARACTERS and plain.isascii()
    short_enough = len(answer) <= _LONGEST_ANSWER_CHARACTERS and len(plain.split()) <= _LONGEST_ANSWER_WORDS
    return long_enough and short_enough and not DOCUMENT_ID.search(answer)


def _plain(text: str) -> str:
    return " ".join(html.unescape(text).split())
