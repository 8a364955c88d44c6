"""Compares two outputs word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kveval.judge.evidence.drift import shared_prefix

_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
# The time of exact matching grows with the product of the lengths. Beyond this, frequent words are skipped.
_MOST_EXACT = 90_000


@dataclass(frozen=True, slots=True)
class Shown:
    """The shown part of one output: (text, whether only this output has it), and the characters left out."""

    pieces: tuple[tuple[str, bool], ...]
    before: int
    after: int

    @property
    def is_empty(self) -> bool:
        return not self.pieces and not self.before


def side_by_side(first: str, second: str, limit: int) -> tuple[Shown, Shown]:
    """Returns up to `limit` characters of both, from a little before the first difference."""
    parting = shared_prefix(first, second)
    start = 0 if parting <= 3 * limit // 4 else parting - limit // 4
    # Starting later would show fewer characters than allowed.
    start = max(0, min(start, max(len(first), len(second)) - limit))
    ours, theirs = first[start : start + limit], second[start : start + limit]
    left, right = word_diff(ours, theirs)
    return (
        Shown(left, min(start, len(first)), max(0, len(first) - start - limit)),
        Shown(right, min(start, len(second)), max(0, len(second) - start - limit)),
    )


def word_diff(first: str, second: str) -> tuple[tuple[tuple[str, bool], ...], tuple[tuple[str, bool], ...]]:
    """Returns (text, whether only this side has it) for both sides."""
    ours, theirs = _WORD.findall(first), _WORD.findall(second)
    head = shared_prefix(ours, theirs)
    tail = shared_prefix(ours[head:][::-1], theirs[head:][::-1])
    middle, other = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    matcher = difflib.SequenceMatcher(None, middle, other, autojunk=len(middle) * len(other) > _MOST_EXACT)
    left, right = [("".join(ours[:head]), False)], [("".join(ours[:head]), False)]
    for kind, a, b, c, d in matcher.get_opcodes():
        left.append(("".join(middle[a:b]), kind != "equal"))
        right.append(("".join(other[c:d]), kind != "equal"))
    end = ("".join(ours[len(ours) - tail :]), False)
    return _joined([*left, end]), _joined([*right, end])


def _joined(pieces: Sequence[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
    return tuple(piece for piece in pieces if piece[0])
