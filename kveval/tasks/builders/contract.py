"""Checks that a builder returns what `kveval.tasks.builders.base` asks for."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from kveval.errors import ConfigError
from kveval.tasks.builders.base import Builder, Haystack
from kveval.tasks.user_code import user_code


def plan_haystack(who: str, builder: Builder, numbers: range, depth_shift: float, rng: random.Random) -> Haystack:
    """Calls `Builder.haystack` and checks what it returns.

    Args:
        who: the builder, as error messages name it.

    Raises:
        ConfigError: the builder fails, or returns what would show late or only as scores of zero.
    """
    with user_code(who):
        haystack = builder.haystack(numbers, depth_shift, rng)
        fault = next(_faults(haystack, numbers), None)
    if fault:
        raise ConfigError(f"{who} {fault}")
    return haystack


def _faults(haystack: Any, numbers: range) -> Iterator[str]:
    if not isinstance(haystack, Haystack):
        yield f"returns {type(haystack).__name__}; use a Haystack"
        return
    if len(haystack.questions) != len(numbers):
        yield f"returns {len(haystack.questions)} questions for {len(numbers)} samples; use one for each of `numbers`"
    # A lone str would be taken for its letters.
    if isinstance(haystack.forbidden, str) or not _are_texts(haystack.forbidden):
        yield f"returns forbidden={haystack.forbidden!r}; use a set of non-empty strings"
    for k, needle in enumerate(haystack.needles):
        if not (_are_texts([needle.text]) and isinstance(needle.lead, str)):
            yield f"plants needle {k} with the text {needle.text!r} after {needle.lead!r}; use non-empty strings"
        if not 0 <= needle.depth_percent <= 100:
            yield f"plants needle {k} at depth_percent={needle.depth_percent}; use a number from 0 to 100"
    for k, question in enumerate(haystack.questions):
        for name, texts in (("answers", question.answers), ("distractors", question.distractors)):
            if not (isinstance(texts, tuple | list) and _are_texts(texts)):
                yield f"asks question {k} with {name}={texts!r}; use a tuple of non-empty strings"
        if not question.answers:
            yield f"asks question {k} without answers; use at least one, which the scorer looks for"
        if not set(question.needles) <= set(range(len(haystack.needles))):
            planted = len(haystack.needles)
            yield f"asks question {k} about needles={question.needles!r}; use indexes of its {planted} needles"
        if not _is_json(question.fields):
            yield f"asks question {k} with fields={question.fields!r}; use a dict that JSON can hold"


def _are_texts(values: Any) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _is_json(fields: Any) -> bool:
    try:
        json.dumps(fields)
    except (TypeError, ValueError):
        return False
    return isinstance(fields, dict)
