"""All ways to make the right function calls: with other accepted values of their arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from kveval.tasks.scoring.call_match import same_calls

MOST_CALLS = 8
"""The most ways to make the calls of one request that are forced."""


class _Change(NamedTuple):
    """Another accepted value of one argument."""

    call: int
    argument: str
    value: Any


def right_calls(doc: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Returns the calls of a document's first answer, then the same with other accepted values: fewest changes first.

    An output can hold only one of them. At most `MOST_CALLS`. An argument that may be left out, or has an object as its
    value, keeps what the first answer says, and so does the order of several calls.
    """
    first: list[dict[str, Any]] = json.loads(doc["answers"][0])
    if "expected" not in doc or "functions" not in doc:
        return [first]
    expected = json.loads(doc["expected"])
    functions = {one["name"]: one for one in json.loads(doc["functions"])}
    found = {_key(first): first}
    changes = list(_changes(first, expected))
    for count in range(1, len(changes) + 1):
        for chosen in combinations(changes, count):
            if len(found) == MOST_CALLS:
                return list(found.values())
            calls = _changed(first, chosen)
            if len({change[:2] for change in chosen}) == count and same_calls(calls, expected, functions):
                found.setdefault(_key(calls), calls)
    return list(found.values())


def _changes(calls: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> Iterator[_Change]:
    for number, (call, one) in enumerate(zip(calls, expected, strict=True)):
        for name, value in call["arguments"].items():
            for other in one["parameters"][name]:
                if other not in ("", value) and not isinstance(other, Mapping):
                    yield _Change(number, name, other)


def _changed(calls: Sequence[Mapping[str, Any]], changes: Sequence[_Change]) -> list[dict[str, Any]]:
    values = {change[:2]: change.value for change in changes}
    return [
        {**call, "arguments": {name: values.get((k, name), value) for name, value in call["arguments"].items()}}
        for k, call in enumerate(calls)
    ]


def _key(calls: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(calls)
