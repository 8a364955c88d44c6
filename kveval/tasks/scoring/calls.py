"""Reads the function calls in an output: JSON, Python, and the forms of models that are trained to call."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kveval.tasks.scoring.call_forms.tags import Kinds, tagged_calls
from kveval.tasks.scoring.json_answers import json_values, loads
from kveval.tasks.scoring.text import VALUES
from kveval.tasks.scoring.wording.degeneration import degeneration

_NAMES = ("name", "function", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args")
_KEYS = {*_NAMES, "arguments", "parameters"}
_FENCE = re.compile(r"```(?:[\w-]*[ \t]*\n)?(.*?)(?:```)?\Z", re.DOTALL)
# A name before its arguments as JSON: Llama's <function=f>{...}, Mistral's [TOOL_CALLS]f[ARGS]{...}, ReAct's Action,
# gpt-oss's to=functions.f {...}, Kimi's functions.f:0<|...|>{...} and DeepSeek's.
_MARKED = re.compile(
    r"""
      <function=([\w.-]+)>\s*
    | \[TOOL_CALLS\]\s*([\w.-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*
    | ^[ \t]*Action:[ \t]*`?([\w.-]+)`?[ \t]*\n[ \t]*Action\ Input:\s*
    | \bto=functions\.([\w.-]+)\s+(?:json\b\s*)?(?=\{)
    | (?<![\w.-])(?:functions\.)?([\w.-]{1,99}):\d{1,9}\s*<\|tool_call_argument_begin\|>\s*
    | function<｜tool▁sep｜>([\w.-]+)\s*```json\s*
    | (?<=[｜>])([\w.-]{1,99})<｜tool▁sep｜>(?=\s*\{)\s*
    """,
    re.VERBOSE | re.MULTILINE,
)
# Mistral's form after the engine has removed its special tokens.
_UNMARKED = re.compile(r"(?:\A|(?<=\}))\s*([A-Za-z_][\w.-]*)(?=\{)")
# These look like a call even if it cannot be read: the keys of a call, and the marks of models' own formats.
_JSON_ATTEMPT = re.compile(r"""["'](?:name|function|arguments|parameters|tool_calls)["']\s*:""")
_MARK = re.compile(
    r"<[|｜]?(?:[\w:|｜▁.]{0,24}?(?:tool[_▁]|tools_prefix|function[_s=]|function\b|invoke\b|START_ACTION)|python_tag)"
    r"|<\|(?:open\|>\s*tools|action_start)|\[TOOL_CALLS\]|\bto=functions\.|^[ \t]*Action Input:",
    re.MULTILINE,
)
# An empty list of calls says that nothing is called.
_NO_CALLS = re.compile(
    r"""<tool_call>\s*(?:\[\s*\]|null|None)?\s*</tool_call>|\[TOOL_CALLS\]\s*\[\s*\]|"tool_calls"\s*:\s*(?:\[\s*\]|null)"""
)
# In prose, f(3), P(X=3), area(base, height) and any() are mathematics or mentions, not calls.
_PYTHON_ATTEMPT = re.compile(
    r"""
      (?<![\w.-])[A-Za-z_][\w.-]{2,}+\(\s*[A-Za-z_]\w*\s*=
    | \b(?=[A-Za-z]\w*?(?:_|[a-z][A-Z]))\w++(?:\(\s*(?:["'\d\[{+-]|(?:True|False|None)\b)|:?\s*\{\s*["'])
    """,
    re.VERBOSE,
)
# A program that prints is an answer, not a call.
_OPENS_PYTHON = re.compile(r"[\[(\s]*(?!print\()[A-Za-z_][\w.]*\(")
_LEAST_WORDS = 3
_DECLINES = re.compile(
    r"\b(?:no|none|nothing|not|cannot|unable|unavailable|n/a|null|sorry|impossible)\b|n['’]t\b", re.IGNORECASE
)
_SAYS = re.compile(
    r"\b(?:is|are|was|were|am|be|can|could|does|do|did|has|have|had|will|would|should|may|might|must|means?|equals?|gives?"
    r"|let|here|there|I|you|we|it|please)\b|=|[a-z]{3,}(?:ed|es)\b|['’](?:s|m|re)\b",
    re.IGNORECASE,
)
_LONGEST_PYTHON_CHARACTERS = 20_000


# Python calls between marks: Llama's, LFM's and OLMo's.
_PYTHON_FRAME = re.compile(
    r"\A\s*(?:<\|python_tag\|>|<\|python_start\|>|<\|tool_call_start\|>|<function_calls>)\s*(?!<)"
    r"|\s*(?:<\|python_end\|>|<\|tool_call_end\|>|(?<!>\n)(?<!>)</function_calls>|<\|eom\|>|<\|eot\|>)\s*\Z"
)


class UnreadableCallsError(Exception):
    """An output tries to call something, and the call cannot be read."""


def calls_text(calls: Sequence[Mapping[str, Any]]) -> str:
    """Returns calls in the form in which they are stored: a JSON array of ``{"name": ..., "arguments": ...}``."""
    return json.dumps([{"name": call["name"], "arguments": call["arguments"]} for call in calls], ensure_ascii=False)


def is_silent(text: str) -> bool:
    """Returns whether an output says nothing at all. An empty list of calls says that no call is right."""
    return not VALUES.words(text) and "[]" not in "".join(text.split())


def is_statement(text: str, question: str = "") -> bool:
    """Returns whether an output without calls says something: in words that make a sentence, or in a program.

    That no call is right must be said. "no function" and an empty list say so, and so does an answer of its own. Noise
    such as "the the the", a single word, or text about something else says nothing.

    Args:
        question: what was asked, if it says what the request is about.
    """
    if is_silent(text) or degeneration(text, question):
        return False
    words = VALUES.words(text)
    if "[]" in "".join(text.split()) or _NO_CALLS.search(text) or _DECLINES.search(text):
        return True
    fenced = _FENCE.match(text.strip())
    if fenced and text.strip().startswith("```") and (statements_of(fenced[1]) or []):
        return True
    return len(set(words)) >= _LEAST_WORDS and 2 * len(set(words)) >= len(words) ** 0.85 and bool(_SAYS.search(text))


def calls_in(text: str, kinds: Kinds | None = None) -> list[dict[str, Any]]:
    """Returns the calls of an output in their order, each ``{"name": ..., "arguments": {...}}``.

    It reads JSON objects with a name and arguments, alone, in arrays, in fences or in prose; names with arguments as
    Llama, Mistral and ReAct mark them; tags around each argument, see `call_forms.tags`; and an output of nothing but
    Python calls with keyword arguments, such as ``[f(a=1), g(b="x")]``. ``f(1)`` cannot be read, because it does not
    say which argument 1 is. What the text denies is no call: ``not {"name": ...}``.

    Args:
        kinds: declared types of parameters, for forms that write every value as text.

    Raises:
        UnreadableCallsError: the output has something like a call, and no call that can be read.
    """
    fenced = _FENCE.match(text.strip())
    alone = _PYTHON_FRAME.sub("", (fenced[1] if fenced else text).strip().strip("`")).strip()
    tagged = [] if _is_json(alone) else tagged_calls(alone, kinds or {})
    if tagged is None:
        raise UnreadableCallsError
    calls = tagged or _python_calls(alone) or _marked_calls(alone) or json_calls(text)
    if not calls and _tries_to_call(text, alone):
        raise UnreadableCallsError
    return calls


def json_calls(text: str) -> list[dict[str, Any]]:
    """Returns the calls that a text has in JSON, as `calls_in` does. Other forms are not read."""
    return [_call(value) for value in _objects(json_values(text)) if not value.keys().isdisjoint(_KEYS)]


def _marked_calls(text: str) -> list[dict[str, Any]]:
    if _is_json(text):
        return []  # marks in it are part of its arguments
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
    """Yields the objects among values, in arrays and in ``tool_calls``."""
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
    """Returns whether a text is only JSON, and not empty: ``[]`` makes no call, ``{"area": 5}`` tries to make one."""
    try:
        return bool(loads(text)) and text[0] in "[{"
    except ValueError:
        return False


def _python_calls(source: str) -> list[dict[str, Any]]:
    """Returns the calls of a text that is only Python calls; none if one of them cannot be read."""
    try:
        return [_python_call(node) for node in _python_nodes(source)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []


def _python_nodes(source: str) -> list[ast.Call]:
    """Returns the calls of a text that is only Python calls, whatever their arguments."""
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
    # Llama calls its built-in tools with brave_search.call(query="x").
    return {"name": ast.unparse(node.func).removesuffix(".call"), "arguments": arguments}


def _plain(value: Any) -> Any:
    """Returns a Python literal as a JSON value; a tuple becomes an array. Raises ValueError if there is none."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError


def statements_of(source: str) -> list[ast.stmt] | None:
    """Returns the statements of a source; None if Python cannot read it, because it is wrong or too deep."""
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
