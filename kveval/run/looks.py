"""Interim looks: when a candidate is judged while it is still asked, and what each look found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from kveval.run.storage import Stored

LookWord = Literal["pass", "fail", "undecided"]
StopCause = Literal["decided", "futile", "collapse", "budget"]


class PlannedLook(Stored):
    """A look of the plan.

    Attributes:
        number: counted from 1, also over the looks that a growth adds.
        error_share: the share of the error rate that this look tests at. Over all looks they add up to less than 1.
    """

    number: Annotated[int, Field(ge=1)]
    error_share: Annotated[float, Field(gt=0, le=1)]


class LengthFinding(Stored):
    """What a look found at one context length.

    Attributes:
        delta, low, high: the difference from the baseline and its interval at this look's level. None if unknown.
        stop: why no more questions of this length are asked after the look. None if they are.
        reason: one sentence.
    """

    word: LookWord
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    stop: StopCause | None = None
    reason: str = ""


class Look(PlannedLook):
    """A look that was taken at one variant.

    Attributes:
        at: UTC, as ISO 8601.
        questions: that the variant had answered, over all lengths.
        lengths: what was found at each context length that was still asked. Empty while the look is being taken.
        context_lengths: the lengths whose haystacks up to this look were all asked.
    """

    at: str
    questions: int
    context_lengths: list[int]
    lengths: dict[int, LengthFinding] = {}


class Stop(Stored):
    """Says that a context length is not asked beyond a look.

    Attributes:
        look: the last look whose haystacks are asked.
        reason: one sentence.
    """

    look: Annotated[int, Field(ge=0)]
    cause: StopCause
    reason: str


def last_look(looks: Sequence[Look], context_lengths: Iterable[int]) -> Look | None:
    """Returns the last look that covers all these lengths: what a row over them rests on. None without one."""
    wanted = set(context_lengths)
    return next((look for look in reversed(looks) if wanted <= set(look.context_lengths)), None)
