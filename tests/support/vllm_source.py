"""The source of a vLLM: its texts, classes, fields and flags, read without importing anything."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE_VARIABLE = "KVEVAL_CONTRACT_SOURCE"
"""Names a folder with another `vllm` package, such as an unpacked wheel."""

_PLACEHOLDER = re.compile(r"\x00|%(?:\.\d+|0\d)?[sdrf]")


def installed_source() -> Path | None:
    """Returns the folder of the package `vllm`, None if there is none."""
    if SOURCE_VARIABLE in os.environ:
        return Path(os.environ[SOURCE_VARIABLE]) / "vllm"
    spec = importlib.util.find_spec("vllm")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


class VLLMSource:
    """One vLLM's source.

    Raises, from every method:
        AssertionError: the source no longer has what is asked for. The message says what and where.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def text(self, path: str) -> str:
        """Returns a file's text. `path` begins below the package."""
        file = self.root / path
        assert file.is_file(), f"vllm/{path} is gone"
        return file.read_text(encoding="utf-8")

    def says(self, path: str, pattern: str, *values: object) -> str:
        """Returns the text in `path` that matches `pattern`, with `values` in its placeholders, in order.

        Placeholders are ``%s`` and what f-strings fill in; `pattern` has to match the text as it is written, where each
        is one character.
        """
        found = [text for text in self._texts(path) if re.search(pattern, _PLACEHOLDER.sub("\x00", text))]
        assert found, f"vllm/{path} no longer says {pattern!r}"
        given = iter(values)
        return _PLACEHOLDER.sub(lambda _: str(next(given, "X")), found[0])

    def module(self, path: str) -> ast.Module:
        return _parsed(self.text(path))

    def class_of(self, path: str, name: str) -> ast.ClassDef:
        found = next((n for n in ast.walk(self.module(path)) if isinstance(n, ast.ClassDef) and n.name == name), None)
        assert found is not None, f"vllm/{path} has no class {name}"
        return found

    def members(self, path: str, name: str) -> set[str]:
        """Returns the methods, and the names assigned or annotated, of a class."""
        return set(_names(self.class_of(path, name).body))

    def parameters(self, path: str, owner: str, method: str) -> list[str]:
        """Returns the names of a method's parameters, without ``self`` and ``cls``."""
        body = self.class_of(path, owner).body
        found = next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == method), None)
        assert found is not None, f"vllm/{path}: {owner} has no {method}"
        names = [one.arg for one in (*found.args.posonlyargs, *found.args.args, *found.args.kwonlyargs)]
        return [name for name in names if name not in ("self", "cls")]

    def has_function(self, path: str, name: str) -> bool:
        return any(isinstance(n, ast.FunctionDef) and n.name == name for n in self.module(path).body)

    def literal_of(self, path: str, name: str) -> list[str]:
        """Returns the strings in ``name = Literal[...]``."""
        for node in self.module(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                value = getattr(node, "value", None)
                assert value is not None
                return [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        raise AssertionError(f"vllm/{path} has no {name}")

    def _texts(self, path: str) -> list[str]:
        return list(_texts(self.module(path)))


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _texts(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "\x00"
                for part in node.values
            )


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
