"""What pydantic found wrong, in kveval's words: which key, and what is allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# What pydantic appends to a location for the member of a union it tried.
_UNION_MEMBER = re.compile(
    r"constrained-\w+|function-\w+\[.*|(?:list|dict|tuple)\[.*|int|float|str|bool|none", re.DOTALL
)

_ALLOWED = {
    "greater_than": "above {gt}",
    "greater_than_equal": "from {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "up to {le}",
    "finite_number": "finite numbers",
    "int_type": "whole numbers",
    "int_parsing": "whole numbers",
    "int_from_float": "whole numbers",
    "float_type": "numbers",
    "float_parsing": "numbers",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "literal_error": "{expected}",
    "too_short": "a list that is not empty",
}


def key_of(problem: ErrorDetails) -> str:
    """Dotted, such as ``variants.0.name``; empty for the whole."""
    return ".".join(part for part in map(str, problem["loc"]) if not _UNION_MEMBER.fullmatch(part))


def reason_of(problem: ErrorDetails) -> str:
    """``allowed: ...``, or what a validator of ours says."""
    allowed = _ALLOWED.get(problem["type"])
    if allowed is None:
        message = problem["msg"].removeprefix("Value error, ")
        return message if problem["type"] == "value_error" else f"{message[0].lower()}{message[1:]}"
    return "allowed: " + allowed.format(**problem.get("ctx", {}))
