"""A reason why the answers of a variant say nothing about its cache."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

Code = Literal[
    "incomplete",
    "unanswered",
    "facts_changed",
    "answers_change",
    "sentinels_differ",
    "unequal_control",
    "impossible_gain",
    "other_model",
]
_PARTLY_USABLE: tuple[Code, ...] = ("incomplete", "unanswered")


@dataclass(frozen=True, slots=True)
class Problem:
    """Says what broke while a variant was measured. It is infrastructure, whatever the scores say.

    Attributes:
        message: one sentence that starts with the variant's name.
        at_question: the first question it concerns, counted from 1 in the order of asking. None if it has no time.
        at: when that question was sent, as ISO 8601 in UTC. None if that is not known.
    """

    variant: str
    code: Code
    message: str
    at_question: int | None = None
    at: str | None = None

    @property
    def is_void(self) -> bool:
        """Whether no row of the variant gets a verdict. What an unfinished variant did answer may still be judged."""
        return self.code not in _PARTLY_USABLE


def iso_time(seconds: float) -> str:
    """Returns Unix time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def clock(iso: str | None) -> str:
    """'2026-11-30T12:41:07+00:00' -> ' (12:41 UTC)'; '' if the time is not known."""
    if iso is None:
        return ""
    try:
        return f" ({datetime.fromisoformat(iso).astimezone(UTC):%H:%M} UTC)"
    except ValueError:
        return f" ({iso})"
