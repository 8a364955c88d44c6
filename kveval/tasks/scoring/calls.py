"""Function calls that stand in an output: as JSON, as Python, or as models write them that were trained to call."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kveval.tasks.scoring.json_answers import json_values, loads
from kveval.tasks.scoring.python_source import statements_of
from kveval.tasks.scoring.text import VALUES

_NAMES = ("name", "function")
_ARGUMENTS = ("arguments", "parameters")
_KEYS = {*_NAMES, *_ARGUMENTS}
_FENCE = re.compile(r"```(?:[\w-]*[ \t]*\n)?(.*?)(?:```)?\Z", re.DOTALL)
# A name before its arguments as JSON: Llama's <function=f>{...}, Mistral's [TOOL_CALLS]f[ARGS]{...} and ReAct's Action.
_MARKED = re.compile(
    r"""
      <function=([\w.-]+)>\s*
    | \[TOOL_CALLS\]\s*([\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*
    | ^[ \t]*Action:[ \t]*`?([\w.-]+)`?[ \t]*\n[ \t]*Action\ Input:\s*
    """,
    re.VERBOSE | re.MULTILINE,
)
# What is left of Mistral's form where the engine takes special tokens out of its text.
_UNMARKED = re.compile(r"(?:\A|(?<=\}))\s*([A-Za-z_][\w.-]*)(?=\{)")
# What looks like a call, whether it can be read or not: the keys of one, and the marks of models' own formats.
_JSON_ATTEMPT = re.compile(r"""["'](?:name|function|arguments|parameters|tool_calls)["']\s*:""")
_MARK = re.compile(
    r"<[|｜]?(?:tool[_▁]call|function\b|function_call|invoke\b|python_tag)|\[TOOL_CALLS\]|\bto=functions\."
    r"|^[ \t]*Action Input:",
    re.MULTILINE,
)
# What says that nothing is called, in the words of a call.
_NO_CALLS = re.compile(
    r"""<tool_call>\s*(?:\[\s*\]|null|None)?\s*</tool_call>|\[TOOL_CALLS\]\s*\[\s*\]|"tool_calls"\s*:\s*(?:\[\s*\]|null)"""
)
# Amid prose, f(3), P(X=3) and area(base, height) are mathematics or mentions, as is any() with nothing in it.
_PYTHON_ATTEMPT = re.compile(
    r"""
      (?<![\w.-])[A-Za-z_][\w.-]{2,}+\(\s*[A-Za-z_]\w*\s*=
    | \b(?=[A-Za-z]\w*?(?:_|[a-z][A-Z]))\w++(?:\(\s*(?:["'\d\[{+-]|(?:True|False|None)\b)|:?\s*\{\s*["'])
    """,
    re.VERBOSE,
)
# A program that prints is an answer of its own.
_OPENS_PYTHON = re.compile(r"[\[(\s]*(?!print\()[A-Za-z_][\w.]*\(")
_LONGEST_PYTHON_CHARACTERS = 20_000


class UnreadableCallsError(Exception):
    """An output tries to call something, but not so that it can be read."""


def calls_text(calls: Sequence[Mapping[str, Any]]) -> str:
    """Calls in the one form they are stored in: a JSON array of ``{"name": ..., "arguments": ...}``."""
    return json.dumps([{"name": call["name"], "arguments": call["arguments"]} for call in calls], ensure_ascii=False)


def is_silent(text: str) -> bool:
    """Whether an output says nothing at all. An empty list of calls says that none is right."""
    return not VALUES.words(text) and "[]" not in "".join(text.split())


def calls_in(text: str) -> list[dict[str, Any]]:
    """The calls of an output, ``{"name": ..., "arguments": {...}}`` each, in their order; none when it makes none.

    Read are JSON objects with a name and arguments, alone, in arrays, in fences or in prose; names with their arguments
    as Llama, Mistral and ReAct mark them; and an output that is nothing but Python calls with keyword arguments,
    ``[f(a=1), g(b="x")]``. Without its keyword nobody knows which argument is which, so ``f(1)`` is an attempt.

    Raises:
        UnreadableCallsError: there is something like a call, but no call.
    """
    fenced = _FENCE.match(text.strip())
    alone = (fenced[1] if fenced else text).strip().strip("`").strip().removeprefix("<|python_tag|>").strip()
    calls = _python_calls(alone) or _marked_calls(alone) or _json_calls(text)
    if not calls and _tries_to_call(text, alone):
        raise UnreadableCallsError
    return calls


def _json_calls(text: str) -> list[dict[str, Any]]:
    return [_call(value) for value in _objects(json_values(text)) if not value.keys().isdisjoint(_KEYS)]


def _marked_calls(text: str) -> list[dict[str, Any]]:
    if _is_json(text):
        return []  # marks in it are text of arguments
    calls = []
    for match in _MARKED.finditer(text):
        arguments = _object_at(text, match.end())
        if arguments is None:
            raise UnreadableCallsError
        calls.append({"name": match[match.lastindex or 0], "arguments": arguments})
    if calls or not _UNMARKED.match(text):
        return calls
    found = ((match[1], _object_at(text, match.end())) for match in _UNMARKED.finditer(text))
    return [{"name": name, "arguments": arguments} for name, arguments in found if arguments is not None]


def _object_at(text: str, start: int) -> dict[str, Any] | None:
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _tries_to_call(text: str, alone: str) -> bool:
    if _PYTHON_ATTEMPT.search(text) or any(_python_nodes(part) for part in (alone, *alone.splitlines())):
        return True
    rest = _NO_CALLS.sub("", text)
    return bool(_JSON_ATTEMPT.search(rest) or _MARK.search(rest)) or (rest == text and _is_json(alone))


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
            arguments = loads(arguments)
        except ValueError as error:
            raise UnreadableCallsError from error
    if name is None or not isinstance(arguments, Mapping):
        raise UnreadableCallsError
    return {"name": name, "arguments": dict(arguments)}


def _is_json(text: str) -> bool:
    """Whether a text is nothing but JSON that says something: ``[]`` makes no call, ``{"area": 5}`` tries to."""
    try:
        return bool(loads(text)) and text[0] in "[{"
    except ValueError:
        return False


def _python_calls(source: str) -> list[dict[str, Any]]:
    """No calls when the text is not just Python calls, or one of them cannot be read."""
    try:
        return [_python_call(node) for node in _python_nodes(source)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []


def _python_nodes(source: str) -> list[ast.Call]:
    """The Python calls that a text is and nothing else, whatever their arguments; none when it is anything else."""
    if len(source) > _LONGEST_PYTHON_CHARACTERS or not _OPENS_PYTHON.match(source):
        return []
    body = statements_of(source.strip(" \t\r\n.,;")) or []
    values = [statement.value if isinstance(statement, ast.Expr) else statement for statement in body]
    nodes = [node for value in values for node in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]
    calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)]
    return calls if len(calls) == len(nodes) else []


def _python_call(node: ast.Call) -> dict[str, Any]:
    arguments = {str(keyword.arg): _plain(ast.literal_eval(keyword.value)) for keyword in node.keywords if keyword.arg}
    if node.args or len(arguments) < len(node.keywords):
        raise ValueError
    # Llama calls its own tools so: brave_search.call(query="x").
    return {"name": ast.unparse(node.func).removesuffix(".call"), "arguments": arguments}


def _plain(value: Any) -> Any:
    """A Python literal as JSON has it: tuples are arrays. Raises ValueError for what JSON does not know."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError
