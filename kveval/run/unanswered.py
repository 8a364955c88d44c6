"""When a variant has too few answers to be measured: the sweep and the gate say it in the same words."""

from __future__ import annotations


def too_few_answers(unanswered: int, asked: int, most_share: float, first_error: str | None) -> str | None:
    """Returns why a variant says nothing about quality, or None if at most `most_share` of its answers are missing."""
    if unanswered <= most_share * asked:
        return None
    example = f"; the first error: {first_error}" if first_error else ""
    return (
        f"{unanswered} of {asked} questions have no answer ({unanswered / asked:.1%}, and the limit is "
        f"{most_share:.1%}){example}"
    )
