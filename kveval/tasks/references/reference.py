"""What a right answer looks like as text, so that an engine can be made to write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["probability", "token_accuracy", "entries"]
"""What an expected score counts. Scores of different units must not be averaged."""

ANSWER = "answer"
FORMAT = "format"
"""The part of what surrounds values, such as the keys of a JSON object. It is reported, and no score counts it."""

_OPENING = "([{<\"'`*_#$-/"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a reference's text.

    Attributes:
        part: the part of the answer it belongs to. None for a lead: its tokens are forced and not scored.
    """

    text: str
    part: str | None = None

    @property
    def counts(self) -> bool:
        """Says whether the score takes the piece's tokens."""
        return self.part not in (None, FORMAT)


@dataclass(frozen=True, slots=True)
class Reference:
    """One text to force as the beginning of the model's answer.

    Attributes:
        pieces: the text in order. What stands after the last scored piece is not forced; it decides how the end of
            that piece is cut into tokens.
        has_special: special tokens spelled in the text are special, as in what a chat template writes.
    """

    pieces: tuple[Piece, ...]
    has_special: bool = False

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def lead(self) -> str:
        """Returns what is forced before the first scored piece."""
        scored = next((k for k, piece in enumerate(self.pieces) if piece.part), len(self.pieces))
        return "".join(piece.text for piece in self.pieces[:scored])


@dataclass(frozen=True, slots=True)
class References:
    """All texts to force for one sample, and what is counted.

    Attributes:
        unit: ``probability``: the product of the probabilities of the scored tokens. ``token_accuracy``: their mean.
            ``entries``: the expected share of entries before the first error; every part is an entry.
        alternatives: right answers of which an output can begin with only one, so their probabilities add up.
            ``token_accuracy`` takes the first.
        contrast: wrong answers to set beside the right ones: a planted value where the right answer is to abstain.
    """

    unit: Unit
    alternatives: tuple[Reference, ...]
    contrast: tuple[Reference, ...] = ()

    @property
    def all(self) -> tuple[Reference, ...]:
        """Returns every text to force, in the order that `kveval.tasks.references.expected.expected_of` takes."""
        return (*self.alternatives, *self.contrast)


@dataclass(frozen=True, slots=True)
class NoReference:
    """A sample that has no expected score.

    Attributes:
        why: in words that a report can show.
    """

    why: str


def joint(before: str, text: str) -> str:
    """Returns the space that belongs between two texts: none beside white space, after a bracket or without letters."""
    last = before[-1:]
    return " " if last and last.isascii() and not last.isspace() and last not in _OPENING and text[:1].strip() else ""
