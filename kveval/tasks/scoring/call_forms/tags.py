"""Reads function calls that are written with tags around each argument, as many models are trained to write them.

Their values are plain text: the declared type of a parameter says what they are, and without one they are JSON if they
can be read so, else text. vLLM's own parsers read the same forms. They cannot be used here, because they need vLLM and
the model's tokenizer, and kveval scores without an engine.

================  ====================================================================================================
Qwen3-Coder       ``<tool_call><function=f><parameter=a>1</parameter></function></tool_call>``; Seed's too
GLM               ``<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>``
invoke            ``<invoke name="f"><parameter name="a">1</parameter></invoke>``, also with a prefix: ``｜DSML｜`` of
                  DeepSeek, ``minimax:`` or ``steptml:``
================  ====================================================================================================
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from kveval.tasks.scoring.json_answers import loads

Kinds = Mapping[str, Mapping[str, str]]
"""By function, the declared type of each parameter."""

_PREFIX = r"(?:[\w｜]{1,30}:|｜\w{1,30}｜)?"
_OPENS = re.compile(
    rf"<{_PREFIX}(?P<tag>invoke|function)(?:=|\s+name=)[\"']?(?P<name>[\w.-]+)[\"']?[^<>]{{0,99}}>"
    r"|<tool_call>\s*(?P<glm>[\w.-]+)\s*(?=<arg_key>|</tool_call>)"
)
_CLOSES = re.compile(rf"</{_PREFIX}(?:invoke|function)>")
_GLM_CLOSES = re.compile(r"</tool_call>")
_PARAMETER = re.compile(
    rf"<{_PREFIX}parameter(?:=|\s+name=)[\"']?(?P<name>[^<>\"'=]{{1,99}}?)[\"']?(?:\s+[^<>]{{0,99}})?>(?P<value>.*?)</{_PREFIX}parameter>",
    re.DOTALL,
)
_GLM_ARGUMENT = re.compile(r"<arg_key>(?P<name>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL)
_TEXT_KINDS = frozenset(["string", "char", "str", "text"])


def tagged_calls(text: str, kinds: Kinds) -> list[dict[str, Any]] | None:
    """Returns the calls of a text that are written with tags, in their order; an empty list without any.

    None if a tag opens a call that cannot be read.

    Args:
        kinds: what is declared. Of any other parameter the value decides.
    """
    opened = list(_OPENS.finditer(text))
    bounds = [match.start() for match in opened[1:]] + [len(text)] * bool(opened)
    found = []
    for match, bound in zip(opened, bounds, strict=True):
        closed = (_CLOSES if match["tag"] else _GLM_CLOSES).search(text, match.end(), bound)
        if closed is None:
            return None
        body, parameters = text[match.end() : closed.start()], _PARAMETER if match["tag"] else _GLM_ARGUMENT
        if body.lstrip().startswith("{"):
            continue  # its arguments are JSON
        if parameters.sub("", body).strip():
            return None
        name = match["name"] or match["glm"]
        declared = kinds.get(name, {})
        arguments: dict[str, Any] = {}
        for one in parameters.finditer(body):
            argument = one["name"].strip()
            if argument in arguments:
                return None
            arguments[argument] = _typed(one["value"], declared.get(argument))
        found.append({"name": name, "arguments": arguments})
    return found


def _typed(written: str, kind: str | None) -> Any:
    """Returns a value as its declared type takes it. One line break around it is layout."""
    text = written.removeprefix("\n").removesuffix("\n")
    if kind is not None and kind.lower() in _TEXT_KINDS:
        return text
    for read in (loads, _literal):
        try:
            return read(text.strip())
        except ValueError:
            continue
    return text


def _literal(text: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(text) from error
    if isinstance(value, bool | int | float | list | dict) or value is None:
        return value
    raise ValueError(text)
