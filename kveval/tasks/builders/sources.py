"""Texts that fill a haystack around its needles."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import count
from typing import Protocol

_SHUFFLED_TOGETHER = 4096


class Cut(IntEnum):
    """How good a place in a text is to cut it and plant a needle; higher is better."""

    NEVER = 0
    CHARACTER = 1
    WORD = 2
    SENTENCE = 3
    PIECE = 4


class TextSource(Protocol):
    """Text that comes in pieces, such as paragraphs, documents or files.

    A piece begins with what separates it from the one before (``"\\n\\n"``), so pieces concatenate to text.
    """

    name: str

    def text(self, index: int) -> str: ...

    def order(self, rng: random.Random) -> Iterator[int]:
        """Yields the indexes of pieces in the order of one haystack, none twice. It ends when all are used."""
        ...

    def __hash__(self) -> int: ...


class ElasticSource(ABC):
    """A `TextSource` whose pieces can be made longer or shorter, as chat haystacks need.

    Such a haystack consists of whole pieces. The prose of its last piece is stretched until the prompt has its exact
    length.
    """

    name: str

    def text(self, index: int) -> str:
        return self.stretched(index, self.prose(index))

    @abstractmethod
    def order(self, rng: random.Random) -> Iterator[int]: ...

    @abstractmethod
    def prose(self, index: int) -> str:
        """Returns the part of a piece that may be longer or shorter."""

    @abstractmethod
    def stretched(self, index: int, prose: str) -> str:
        """Returns the piece with other prose in place of its own."""


class NumberedText:
    """Pieces made from nothing but their own numbers, so each is the same in every haystack.

    Args:
        piece: makes piece number k, from 0.
        pieces: how many there are; None if they never end.
    """

    def __init__(self, name: str, piece: Callable[[int], str], pieces: int | None = None) -> None:
        self.name = name
        self.text = piece
        self._pieces = pieces

    def order(self, rng: random.Random) -> Iterator[int]:
        """Shuffles the first few thousand pieces, then the next, and so on."""
        starts = count(0, _SHUFFLED_TOGETHER) if self._pieces is None else range(0, self._pieces, _SHUFFLED_TOGETHER)
        for first in starts:
            past = min(first + _SHUFFLED_TOGETHER, self._pieces or first + _SHUFFLED_TOGETHER)
            yield from rng.sample(range(first, past), past - first)
