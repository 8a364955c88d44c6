"""Reads BFCL's functions and requests: what can be called, what is asked, and which calls are right.

From the Berkeley Function Calling Leaderboard (PyPI ``bfcl-eval``), read once per process. Only requests in Python's
type system are asked, and only those whose own ground truth satisfies their own schema.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from kveval.tasks.corpora.texts import BFCL
from kveval.tasks.scoring.call_match import fits_schema, same_calls, tool_function, tool_name

Kind = Literal["simple", "multiple", "parallel", "irrelevant"]

_FILES: dict[Kind, str] = {
    "simple": "simple_python", "multiple": "multiple", "parallel": "parallel", "irrelevant": "irrelevance",
}  # fmt: skip
_MORE_FUNCTIONS = (
    "parallel_multiple", "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance",
)  # fmt: skip
_LONGEST_FUNCTION_CHARACTERS = 2400
_LONGEST_CANDIDATES_CHARACTERS = 1500
_LONGEST_REQUEST_CHARACTERS = 400
_LONGEST_CALLS_CHARACTERS = 700
_HUMP = re.compile(r"([a-z])([A-Z])")
_WORD = re.compile(r"[a-z]{3,}")
_STEM_CHARACTERS = 5
_LIKE_REQUEST = 0.15
_LIKE_FUNCTION = 0.25


@dataclass(frozen=True, eq=False)
class ToolFunction:
    """A function that a model can call.

    Attributes:
        name: as chat endpoints allow it.
        declared: BFCL's own declaration, under that name.
    """

    name: str
    declared: Mapping[str, Any]

    @cached_property
    def tool(self) -> dict[str, Any]:
        """Returns name, description and parameters as JSON schema."""
        return tool_function(self.declared)

    @cached_property
    def line(self) -> str:
        """Returns `tool` as one line of JSON."""
        return json.dumps(self.tool, ensure_ascii=False)

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems(f"{self.declared['name']} {self.tool['description'].split('. ')[0]}")


@dataclass(frozen=True, eq=False)
class ToolRequest:
    """A user's request that takes function calls.

    Attributes:
        candidates: the functions BFCL offers for it.
        expected: the right calls with all allowed values, in the form of `kveval.tasks.scoring.call_match`; empty when
            no function fits.
    """

    kind: Kind
    text: str
    candidates: tuple[ToolFunction, ...]
    expected: tuple[Mapping[str, Any], ...]

    @property
    def functions(self) -> dict[str, Mapping[str, Any]]:
        """Returns the declarations of the expected functions by name."""
        names = {call["name"] for call in self.expected}
        return {function.name: function.declared for function in self.candidates if function.name in names}

    @cached_property
    def reference(self) -> list[dict[str, Any]]:
        """Returns the right calls, with the first value allowed for each parameter."""
        return [
            {"name": call["name"], "arguments": _first_values(call["parameters"], self.functions[call["name"]])}
            for call in self.expected
        ]

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems(self.text)

    def may_be_served_by(self, function: ToolFunction) -> bool:
        """Says whether calling a function might be right: it resembles this request or one of its functions."""
        likely = _likeness(self.stems, function.stems) >= _LIKE_REQUEST
        return likely or any(
            own.name == function.name or _likeness(own.stems, function.stems) >= _LIKE_FUNCTION
            for own in self.candidates
        )


@lru_cache(maxsize=1)
def functions() -> tuple[ToolFunction, ...]:
    """Returns the functions of BFCL's Python and live categories, one of each name, without overlong ones."""
    found: dict[str, ToolFunction] = {}
    for name in (*_FILES.values(), *_MORE_FUNCTIONS):
        for row in _rows(name):
            for function in _functions(row):
                if len(function.line) <= _LONGEST_FUNCTION_CHARACTERS:
                    found.setdefault(function.name, function)
    return tuple(found.values())


@lru_cache(maxsize=4)
def requests(kind: Kind) -> tuple[ToolRequest, ...]:
    """Returns the requests of a kind, in BFCL's order."""
    rows = _rows(_FILES[kind])
    truths = [[] for _ in rows] if kind == "irrelevant" else _truths(_FILES[kind], rows)
    return tuple(request for row, truth in zip(rows, truths, strict=True) for request in _request(kind, row, truth))


def stems(text: str) -> frozenset[str]:
    """Returns the first letters of a text's words. Splits names at underscores and capitals."""
    plain = _HUMP.sub(r"\1 \2", text).lower().replace("_", " ")
    return frozenset(word[:_STEM_CHARACTERS] for word in _WORD.findall(plain))


def _request(kind: Kind, row: Mapping[str, Any], truth: Sequence[Mapping[str, Any]]) -> Iterator[ToolRequest]:
    """Yields one request, or none if it is too long or its truth does not satisfy its schema."""
    text = " ".join(row["question"][0][-1]["content"].split())
    candidates = tuple(_functions(row))
    expected = tuple(
        {"name": tool_name(name), "parameters": parameters} for call in truth for name, parameters in call.items()
    )
    request = ToolRequest(kind, text, candidates, expected)
    if len({function.name for function in candidates}) < len(candidates) or len(text) > _LONGEST_REQUEST_CHARACTERS:
        return
    if sum(len(function.line) for function in candidates) > _LONGEST_CANDIDATES_CHARACTERS:
        return
    declared = request.functions
    if any(call["name"] not in declared for call in expected) or not all(map(_is_plain, declared.values())):
        return
    reference = request.reference
    fits = all(fits_schema(call["arguments"], declared[call["name"]]) for call in reference)
    if fits and same_calls(reference, expected, declared) and len(json.dumps(reference)) <= _LONGEST_CALLS_CHARACTERS:
        yield request


def _is_plain(declared: Mapping[str, Any]) -> bool:
    """Says whether BFCL's checker knows every type of a function, items included."""
    kinds = {"string", "any", "integer", "float", "boolean", "array", "tuple", "dict"}
    for parameter in declared["parameters"]["properties"].values():
        items = parameter.get("items") if parameter.get("type") in ("array", "tuple") else None
        if parameter.get("type") not in kinds or (items is not None and items.get("type") not in kinds):
            return False
    return True


def _first_values(allowed: Mapping[str, Sequence[Any]], declared: Mapping[str, Any]) -> dict[str, Any]:
    required = declared["parameters"].get("required") or ()
    return {name: _first(values) for name, values in allowed.items() if name in required or "" not in values}


def _first(values: Sequence[Any]) -> Any:
    value = next((value for value in values if value != ""), "")
    return _spelled(value)


def _spelled(value: Any) -> Any:
    """Replaces the allowed values of an object's keys by the first."""
    if isinstance(value, Mapping):
        return {key: _first(values) for key, values in value.items() if "" not in values}
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    return value


def _functions(row: Mapping[str, Any]) -> Iterator[ToolFunction]:
    for declared in row["function"]:
        name = tool_name(declared["name"])
        yield ToolFunction(name, {**declared, "name": name})


def _rows(name: str, folder: str = "bfcl_eval/data") -> list[dict[str, Any]]:
    lines = BFCL.read(f"{folder}/BFCL_v4_{name}.json").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _truths(name: str, rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    by_id = {row["id"]: row["ground_truth"] for row in _rows(name, "bfcl_eval/data/possible_answer")}
    return [by_id[row["id"]] for row in rows]


@lru_cache(maxsize=1)
def _rarity() -> dict[str, float]:
    """Returns the inverse document frequency of stems over all functions."""
    seen = Counter(stem for function in functions() for stem in function.stems)
    return {stem: math.log(len(functions()) / (1 + count)) for stem, count in seen.items()}


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Returns the cosine of two sets of stems weighted by rarity, in [0, 1]."""
    rarity = _rarity()
    unseen = math.log(len(functions()))

    def weight(stems_: frozenset[str]) -> float:
        return sum(rarity.get(stem, unseen) ** 2 for stem in stems_)

    shared = weight(one & other)
    return shared / math.sqrt(weight(one) * weight(other)) if shared else 0.0
