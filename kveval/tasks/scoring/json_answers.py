"""JSON in an output: found whatever stands around it, checked against its schema, compared with what was asked."""

from __future__ import annotations

import json
import re
from typing import Any

_OPENING = re.compile(r"[{\[]")
_MOST_FAILURES = (
    1000  # each costs time in proportion to the text; an output of nothing but braces must not cost minutes
)


def json_values(text: str) -> list[Any]:
    """Objects and arrays of a text in their order, outermost only; whatever is around or between them is skipped.

    Strict JSON: no comments, single quotes, trailing commas, NaN or duplicate keys.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)
    found, at = [], 0
    failures = 0
    while failures < _MOST_FAILURES and (opening := _OPENING.search(text, at)):
        try:
            value, at = decoder.raw_decode(text, opening.start())
            found.append(value)
        except ValueError:
            at = opening.end()
            failures += 1
        except RecursionError:
            break
    return found


def same_json(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 is 1.0, but neither is true or "1"; key order does not matter."""
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
        raise ValueError("a key stands twice")
    return found
