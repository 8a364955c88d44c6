"""Function calls that stand in an output, as JSON or as Python."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kveval.tasks.json_answers import json_values

_NAMES = ("name", "function")
_ARGUMENTS = ("arguments", "parameters")
_KEYS = {*_NAMES, *_ARGUMENTS}
# What looks like a call, whether it can be read or not.
_JSON_ATTEMPT = re.compile(r"""["'](?:name|function|arguments|parameters|tool_calls)["']\s*:|<tool_call>""")
_PYTHON_ATTEMPT = re.compile(r"[A-Za-z_][\w.-]*\(\s*(?:[A-Za-z_]\w*\s*=|\))")
_FENCE = re.compile(r"^\s*```[\w-]*[ \t]*\n?(.*?)\n?\s*```\s*$", re.DOTALL)
_LONGEST_PYTHON_CHARACTERS = 20_000


class UnreadableCallsError(Exception):
    """An output tries to call something, but not so that it can be read."""


def calls_text(calls: Sequence[Mapping[str, Any]]) -> str:
    """Calls in the one form they are stored in: a JSON array of ``{"name": ..., "arguments": ...}``."""
    return json.dumps([{"name": call["name"], "arguments": call["arguments"]} for call in calls], ensure_ascii=False)


def calls_in(text: str) -> list[dict[str, Any]]:
    """The calls of an output, ``{"name": ..., "arguments": {...}}`` each, in their order; none when it makes none.

    Read are JSON objects with a name and arguments, alone, in arrays, in fences or in prose, and an output that is
    nothing but Python calls with keyword arguments, ``[f(a=1), g(b="x")]``.

    Raises:
        UnreadableCallsError: there is something like a call, but no call.
    """
    fenced = _FENCE.match(text)
    alone = (fenced[1] if fenced else text).strip()
    python = _python_calls(alone)
    if python is not None:
        return python
    calls = [_call(value) for value in _objects(json_values(text)) if not value.keys().isdisjoint(_KEYS)]
    if not calls and (_JSON_ATTEMPT.search(text) or _PYTHON_ATTEMPT.search(text) or _is_other_json(alone)):
        raise UnreadableCallsError
    return calls


def _objects(values: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Objects, arrays of objects, and what ``tool_calls`` hold."""
    for value in values:
        if isinstance(value, list):
            yield from _objects(value)
        elif isinstance(value, Mapping):
            if isinstance(value.get("tool_calls"), list):
                yield from _objects(value["tool_calls"])
            elif isinstance(value.get("function"), Mapping):
                yield value["function"]
            else:
                yield value


def _call(value: Mapping[str, Any]) -> dict[str, Any]:
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise UnreadableCallsError from error
    if name is None or not isinstance(arguments, Mapping):
        raise UnreadableCallsError
    return {"name": name, "arguments": dict(arguments)}


def _is_other_json(text: str) -> bool:
    """Whether a text is nothing but JSON that says something: ``[]`` makes no call, ``{"area": 5}`` tries to."""
    try:
        return bool(json.loads(text)) and text[0] in "[{"
    except (ValueError, RecursionError):
        return False


def _python_calls(source: str) -> list[dict[str, Any]] | None:
    """None when the text is not just Python calls."""
    if "(" not in source or len(source) > _LONGEST_PYTHON_CHARACTERS:
        return None
    try:
        tree = ast.parse(source, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        return [_python_call(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _python_call(node: ast.expr) -> dict[str, Any]:
    if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError
    arguments = {str(keyword.arg): _plain(ast.literal_eval(keyword.value)) for keyword in node.keywords if keyword.arg}
    if len(arguments) < len(node.keywords):
        raise ValueError
    return {"name": ast.unparse(node.func), "arguments": arguments}


def _plain(value: Any) -> Any:
    """A Python literal as JSON has it: tuples are arrays. Raises ValueError for what JSON does not know."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError
