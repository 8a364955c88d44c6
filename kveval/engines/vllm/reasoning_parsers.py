"""Reads from the source of the installed vLLM how its reasoning parsers tell thinking from answers.

The source is read and not imported: importing takes seconds and needs torch. Without vLLM there is nothing to read, and
the table in `kveval.tasks.scoring.reasoning` holds without it.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_FOLDERS = ("reasoning", "parser")
_STARTS = ("start_token", "reasoning_start_str", "THINK_START")
_ENDS = ("end_token", "reasoning_end_str", "THINK_END")


@cache
def parser_markers() -> tuple[tuple[str, str], ...]:
    """Returns what stands before and after thinking, once for each pair that a parser names. Takes half a second."""
    spec = importlib.util.find_spec("vllm")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(path for root in roots for folder in _FOLDERS for path in (Path(root) / folder).rglob("*.py"))
    return tuple(dict.fromkeys(pair for path in files for pair in _pairs(path)))


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return
    constants = dict(_assigned(module))
    for scope in ast.walk(module):
        if isinstance(scope, ast.ClassDef | ast.FunctionDef | ast.Dict | ast.Module):
            named = dict(_named(scope, constants))
            start = next((named[name] for name in _STARTS if name in named), None)
            end = next((named[name] for name in _ENDS if name in named), None)
            if start and end:
                yield start, end


def _assigned(scope: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields the names in a scope that are assigned a text."""
    for node in ast.walk(scope):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None) if targets else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, value.value


def _named(scope: ast.AST, constants: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the texts of a scope by the names that parsers use: returned by a property, assigned, or in a dict."""

    def text(node: ast.AST | None) -> str | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        return constants.get(node.id) if isinstance(node, ast.Name) else None

    pairs: list[tuple[object, ast.AST | None]] = []
    if isinstance(scope, ast.Dict):
        keyed = zip(scope.keys, scope.values, strict=True)
        pairs = [(key.value, value) for key, value in keyed if isinstance(key, ast.Constant)]
    for one in getattr(scope, "body", ()):
        if isinstance(one, ast.FunctionDef):
            pairs += [(one.name, node.value) for node in one.body if isinstance(node, ast.Return)]
        elif isinstance(one, ast.Assign):
            pairs += [(target.id, one.value) for target in one.targets if isinstance(target, ast.Name)]
    for name, value in pairs:
        if name in (*_STARTS, *_ENDS) and (found := text(value)):
            yield str(name), found
