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
        """Returns the text in `path`, a file or a folder, that matches `pattern`, with `values` in its placeholders.

        Placeholders are ``%s`` and what f-strings fill in; `pattern` has to match the text as it is written, where each
        is one character.
        """
        found = [text for text in self._texts(path) if re.search(pattern, _PLACEHOLDER.sub("\x00", text))]
        assert found, f"vllm/{path} no longer says {pattern!r}"
        given = iter(values)
        return _PLACEHOLDER.sub(lambda _: str(next(given, "X")), found[0])

    def annotates(self, path: str, name: str) -> bool:
        """Says whether a class in a folder has a field of this name."""
        pattern = re.compile(rf"^    {name}: ", re.MULTILINE)
        return any(pattern.search(file.read_text(encoding="utf-8")) for file in (self.root / path).rglob("*.py"))

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

    def literal_of(self, path: str, name: str) -> list[str]:
        """Returns the strings in ``name = Literal[...]``."""
        value = dict(_assigned(self.module(path).body)).get(name)
        assert value is not None, f"vllm/{path} has no {name}"
        return [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]

    def backend(self, name: str) -> tuple[dict[str, ast.expr], dict[str, ast.FunctionDef]]:
        """Returns what the class of an attention backend assigns, and its methods."""
        registry = self.class_of("v1/attention/backends/registry.py", "AttentionBackendEnum")
        dotted = str(ast.literal_eval(dict(_assigned(registry.body))[name]))
        module, _, owner = dotted.removeprefix("vllm.").rpartition(".")
        body = self.class_of(module.replace(".", "/") + ".py", owner).body
        return dict(_assigned(body)), {node.name: node for node in body if isinstance(node, ast.FunctionDef)}

    def _texts(self, path: str) -> list[str]:
        file = self.root / path
        if not file.is_dir():
            return list(_texts(self.module(path)))
        files = sorted(str(one.relative_to(self.root)) for one in file.rglob("*.py"))
        return [text for one in files for text in _texts(self.module(one))]


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


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
