"""Scorers a row of one's own prompts may name. Each says whether an output gives one of the row's answers.

Thinking (``<think>...</think>``) is left out of every output first. An output a scorer cannot read as what it should
be has ``valid`` 0 beside its score of 0, and the outcome ``invalid_format``.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import regex

from kveval.tasks.scoring.calls import UnreadableCallsError, calls_in, is_silent
from kveval.tasks.scoring.json_answers import json_values, same_json
from kveval.tasks.scoring.text import PROSE
from kveval.tasks.scoring.thinking import answer_of

NORMALIZER = PROSE
_FENCED = re.compile(r"```\w*\s(.*?)```", re.DOTALL)
LONGEST_PATTERN = 1000
PATTERN_SECONDS = 1.0
"""A pattern that looks longer at one output has given no answer: nested repeats can take longer than the universe."""


def score_row(doc: Mapping[str, Any], text: str) -> dict[str, float]:
    """Metrics of an output; none when the row is not scored.

    Args:
        doc: ``scorer``, a key of `SCORERS` or ``none``, and ``answers`` as `reference` made them.
    """
    if doc["scorer"] == "none":
        return {}
    return SCORERS[doc["scorer"]](answer_of(text), doc["answers"])


def reference(scorer: str, answer: Any) -> str:
    """An answer of a row as the text its scorer compares with.

    Raises:
        ValueError: no such answer can ever be given; says what is allowed.
    """
    if scorer in ("json", "tool_call"):
        value = _given_json(answer)
        return json.dumps(_given_calls(value) if scorer == "tool_call" else value, sort_keys=True)
    if not isinstance(answer, str | int | float) or isinstance(answer, bool):
        raise ValueError("allowed: text or a number")
    text = str(answer)
    if scorer == "regex":
        _check_pattern(text)
    elif not text.strip() or (scorer == "contains" and not NORMALIZER.words(text)):
        raise ValueError("allowed: text with a letter or digit in it" if text.strip() else "allowed: text")
    return text


def _given_json(answer: Any) -> Any:
    if not isinstance(answer, str):
        return answer
    try:
        return _loads(answer)
    except ValueError as error:
        raise ValueError("allowed: a JSON value, or a string that holds one") from error


def _given_calls(answer: Any) -> list[dict[str, Any]]:
    calls = answer if isinstance(answer, list) else [answer]
    for call in calls:
        if not (
            isinstance(call, dict) and call.keys() == {"name", "arguments"} and isinstance(call["arguments"], dict)
        ):
            raise ValueError('allowed: {"name": ..., "arguments": {...}}, or a list of such; [] where no call is right')
    return calls


def _check_pattern(pattern: str) -> None:
    if not pattern or len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"allowed: a regular expression of 1 to {LONGEST_PATTERN} characters")
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from error


def contains_answer(text: str, answers: Sequence[str]) -> dict[str, float]:
    """Whole words; case, punctuation, articles and accents make no difference (see `NORMALIZER`).

    Numbers are compared by value, with their sign; the choice "A" is told from the article.
    """
    return {"score": float(any(NORMALIZER.names(text, answer) for answer in answers))}


def is_answer(text: str, answers: Sequence[str]) -> dict[str, float]:
    """Character by character, but for white space around it, and however Unicode and line ends are written."""
    return {"score": float(_plain(text) in map(_plain, answers))}


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n")).strip()


def is_json(text: str, answers: Sequence[str]) -> dict[str, float]:
    """The JSON an output is, or else the one object or array in it, or the value in a markdown fence, amid any prose.

    The order of keys makes no difference and 1 is 1.0; 1, "1" and true are three things. Two different objects are no
    answer; but where an object is asked for, a citation like [1] beside it is none either.
    """
    values = _found(text)
    if not values:
        return {"score": 0.0, "valid": 0.0}
    try:
        wanted = [json.loads(answer) for answer in answers]
        shapes = {_shape(value) for value in wanted}
        values = [value for value in values if _shape(value) in shapes] or values
        one = all(same_json(values[0], other) for other in values[1:])
        right = one and any(same_json(values[0], value) for value in wanted)
    except RecursionError:
        # Nested deeper than can be compared.
        return {"score": 0.0, "valid": 0.0}
    return {"score": float(right), "valid": 1.0}


def _found(text: str) -> list[Any]:
    try:
        return [_loads(text)]
    except ValueError:
        return json_values(text) + _fenced_scalars(text)


def _fenced_scalars(text: str) -> list[Any]:
    found = []
    for block in _FENCED.findall(text):
        with contextlib.suppress(ValueError):
            found.append(_loads(block))
    return [value for value in found if _shape(value) == "scalar"]


def _shape(value: Any) -> str:
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "scalar"


def matches(text: str, answers: Sequence[str]) -> dict[str, float]:
    """Whether a pattern is found anywhere in the output, in the syntax of Python's ``re``."""
    try:
        found = any(regex.search(pattern, text, timeout=PATTERN_SECONDS) for pattern in answers)
    except (TimeoutError, RecursionError):
        return {"score": 0.0, "valid": 0.0}
    return {"score": float(found), "valid": 1.0}


def makes_calls(text: str, answers: Sequence[str]) -> dict[str, float]:
    """The asked calls and no other, in any order, with exactly the asked arguments, compared as JSON is."""
    try:
        calls = calls_in(text)
        silent = not calls and is_silent(text)
        right = not silent and any(_same_calls(calls, json.loads(answer)) for answer in answers)
    except (UnreadableCallsError, RecursionError):
        return {"score": 0.0, "valid": 0.0, "abstained": 0.0}
    return {"score": float(right), "valid": 1.0, "abstained": float(not calls and not silent)}


def _same_calls(calls: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> bool:
    left = list(calls)
    for wanted in expected:
        found = next((call for call in left if same_json(call, wanted)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


SCORERS: dict[str, Callable[[str, Sequence[str]], dict[str, float]]] = {
    "contains": contains_answer,
    "exact": is_answer,
    "json": is_json,
    "regex": matches,
    "tool_call": makes_calls,
}


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
