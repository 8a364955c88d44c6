"""Rewrites what pydantic found wrong in kveval's words: which key, and what to use instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from kveval.errors import nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SHOWN_CHARACTERS = 80
# What pydantic appends to a location for the member of a union it tried.
_UNION_MEMBER = re.compile(
    r"constrained-\w+|function-\w+\[.*|(?:list|dict|tuple)\[.*|int|float|str|bool|none", re.DOTALL
)

_USE = {
    "greater_than": "a number above {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "{le} or less",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "literal_error": "{expected}",
    "too_short": "a list with at least one entry",
}


def _key_of(problem: ErrorDetails) -> str:
    """Returns the dotted key, such as ``variants.0.name``; empty if the problem is the whole configuration."""
    return ".".join(part for part in map(str, problem["loc"]) if not _UNION_MEMBER.fullmatch(part))


def _reason_of(problem: ErrorDetails) -> str:
    """Returns ``use: ...``, or the message of one of kveval's own validators."""
    use = _USE.get(problem["type"])
    if use is None:
        message = problem["msg"].removeprefix("Value error, ")
        return message if problem["type"] == "value_error" else f"{message[0].lower()}{message[1:]}"
    return "use: " + use.format(**problem.get("ctx", {}))


def explain(error: ValidationError, model: type[BaseModel], within: str = "") -> str:
    """Returns one line about what is wrong with a `model`: the key, the value and what to use instead.

    Args:
        within: the key that holds the model, such as ``judge``.
    """
    problems = error.errors(include_url=False)
    # A misspelt key explains other problems, such as a key that is missing.
    problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
    inner = _key_of(problem)
    key = ".".join(part for part in (within, inner) if part)
    if problem["type"] == "extra_forbidden":
        *parents, name = inner.split(".")
        return f"unknown key {key!r}; {nearest(name, _keys_at(model, parents))}"
    if problem["type"] == "missing":
        return f"{key}: required, not given"
    reason = _reason_of(problem)
    if problem["type"] not in ("value_error", "json_invalid"):
        reason = f"{shown(problem['input'])} is not allowed; {reason}"
    return f"{key}: {reason}" if key else reason


def shown(value: Any) -> str:
    """Returns how a value is written in a message: cut, if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits.
        text = f"a number of {value.bit_length():,} bits" if isinstance(value, int) else f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _keys_at(model: type[BaseModel], parents: Iterable[str]) -> list[str]:
    for part in parents:
        field = model.model_fields.get(part)
        model = _model_in(field.annotation) or model if field else model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
