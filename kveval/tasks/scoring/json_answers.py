"""Finds JSON in an output, and compares JSON values."""

from __future__ import annotations

import json
import re
from typing import Any

from kveval.tasks.scoring.wording.denial import is_denied_before

_OPENING = re.compile(r"[{\[]")
# Each failure costs time in proportion to the text, and an output of nothing but braces must not cost minutes.
_MOST_FAILURES = 1000


def json_values(text: str) -> list[Any]:
    """Returns the outermost objects and arrays of a text in their order, and skips everything around them.

    One that the text denies, as in ``not {"a": 1}``, is none of them.

    Strict JSON only: no comments, single quotes, trailing commas, NaN or duplicate keys.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)
    found, at = [], 0
    failures = 0
    while failures < _MOST_FAILURES and (opening := _OPENING.search(text, at)):
        try:
            value, at = decoder.raw_decode(text, opening.start())
            if not is_denied_before(text, opening.start()):
                found.append(value)
        except ValueError:
            at = opening.end()
            failures += 1
        except RecursionError:
            break
    return found


def loads(text: str) -> Any:
    """Returns the JSON value that a text is. Raises ValueError for anything else, NaN, infinities and deep nesting."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def same_json(one: Any, other: Any) -> bool:
    """Returns whether two JSON values are equal: 1 is 1.0, but neither is true or "1"; key order does not matter."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same_json(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found
