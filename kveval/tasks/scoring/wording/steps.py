"""Reads the steps of a chain from an output, and says which are right and where in the output they end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kveval.tasks.scoring.numbers import by_value, join_thousands

# "Step 3: 417", "3. 417", "**Step 3** - 417", "| 3 | 417 |"
_LINE = re.compile(r"^[^\w\n]*(?:step[^\S\n]*)?(\d{1,5})[^\w\n]{1,8}?(\S[^\n]*)$", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"(?<![\w.])-\d[\d.]*\w*|\w+(?:[.-]\w+)*")
_HYPHENS = re.compile("[\u2010-\u2015\u2212]")


@dataclass(frozen=True, slots=True)
class Step:
    """One asked step. `end` is where in the text the line that gives it ends; None if none gives it."""

    is_right: bool
    end: int | None


def has_steps(doc: Mapping[str, Any]) -> bool:
    """Says whether the answers of a document are the numbered steps of a chain."""
    answers = doc.get("answers") or ()
    return bool(answers) and all(str(one).startswith(f"Step {k}: ") for k, one in enumerate(answers, 1))


def steps_in(answers: Sequence[str], text: str) -> list[Step]:
    """Reads a chain from `text`: the lines that begin with the number of a step, up to the last step.

    A line is right if it ends with the value: "Step 2: 400 + 17 = 417" is 417. A step that two lines give different
    values is wrong. Text after the last step does not count.

    Args:
        answers: "Step 1: 400", "Step 2: 417" and so on.
    """
    asked = [_words(answer.split(": ", 1)[1]) for answer in answers]
    given: dict[int, set[bool]] = {}
    ends: dict[int, int] = {}
    for line in _LINE.finditer(text):
        number = int(line[1])
        if not 1 <= number <= len(asked):
            continue
        value = asked[number - 1]
        given.setdefault(number, set()).add(_words(line[2])[-len(value) :] == value)
        ends.setdefault(number, line.end())
        if number == len(asked):
            break
    return [Step(given.get(k) == {True}, ends.get(k)) for k in range(1, len(asked) + 1)]


def _words(text: str) -> list[str]:
    plain = join_thousands(_HYPHENS.sub("-", text), spaced=False)
    return [by_value(word.lower()) for word in _WORD.findall(plain)]
