"""Gives real source code as haystack text: Django, cut into whole functions, methods and sections of modules.

It is read with `ast` only, never imported.
"""

from __future__ import annotations

import ast
import random
import re
import textwrap
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from kveval.errors import DataError
from kveval.tasks.corpora.texts import DJANGO

_LEFT_OUT = ("/locale/", "/migrations/", "_template/")
_LONGEST_EXCERPT = 2400
_LONGEST_CLASS = 1200
_LONGEST_DEFINITION = 800

_DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_MANY_BLANK = re.compile(r"\n{3,}")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A piece of a source file.

    Attributes:
        owner: the class a method belongs to.
        code: whole lines, indented as in the file, without a newline at the end.
    """

    path: str
    owner: str | None
    code: str

    def text(self) -> str:
        """Returns the code under a line that says where it is from."""
        where = f"{self.path}, class {self.owner}" if self.owner else self.path
        return f"# file: {where}\n{self.code}"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, method or class short enough to plant.

    Attributes:
        excerpt: its whole source, decorators included.
        is_class: a class, else a function or method.
        unique: no other definition in the code base has this name.
    """

    excerpt: Excerpt
    is_class: bool
    name: str
    unique: bool

    def source(self) -> str:
        """Returns the code without the indentation of a method."""
        return textwrap.dedent(self.excerpt.code)

    def tree(self) -> FunctionNode | ast.ClassDef:
        """Parses `source`. Line numbers and columns count in it."""
        node = ast.parse(self.source()).body[0]
        if not isinstance(node, FunctionNode | ast.ClassDef):
            raise TypeError(f"{self.name} is a {type(node).__name__}")
        return node

    def with_source(self, source: str) -> Excerpt:
        """Returns the excerpt with changed code."""
        indented = textwrap.indent(source, "    ") if self.excerpt.owner else source
        return Excerpt(self.excerpt.path, self.excerpt.owner, indented.rstrip())


class CodeBase:
    """Excerpts of a package, file by file, as a `TextSource` of filler.

    A haystack takes files in an order of its own and the excerpts of a file in theirs. Excerpts above 2,400 characters
    are left out, so that there are places to plant definitions between whole excerpts even in a short context.

    Attributes:
        definitions: functions, methods and classes short enough to plant, in order of path.
    """

    name = "code"

    def __init__(self, files: Mapping[str, str]) -> None:
        self.paths = tuple(files)
        self.excerpts: list[Excerpt] = []
        self._files: list[range] = []
        found: list[tuple[Excerpt, str, bool]] = []
        count: Counter[str] = Counter()
        for path, source in files.items():
            first = len(self.excerpts)
            module = _Module(path, source)
            self.excerpts += [excerpt for excerpt in module.excerpts() if len(excerpt.code) <= _LONGEST_EXCERPT]
            self._files.append(range(first, len(self.excerpts)))
            found += module.definitions()
            count.update(_DEFINED.findall(source))
        self.definitions = tuple(
            Definition(excerpt, is_class, name, count[name] == 1)
            for excerpt, name, is_class in found
            if len(excerpt.code) <= _LONGEST_DEFINITION
            and excerpt.code.isascii()
            and not textwrap.dedent(excerpt.code).startswith(" ")
        )

    def text(self, index: int) -> str:
        return "\n\n" + self.excerpts[index].text()

    def order(self, rng: random.Random) -> Iterator[int]:
        files = list(self._files)
        rng.shuffle(files)
        for file in files:
            yield from file


@lru_cache(maxsize=1)
def code_base() -> CodeBase:
    """Reads Django, once per process."""
    wheel = DJANGO.fetch()
    try:
        with zipfile.ZipFile(wheel) as archive:
            paths = sorted(name for name in archive.namelist() if name.endswith(".py"))
            files = {
                path: archive.read(path).decode("utf-8")
                for path in paths
                if not any(part in path for part in _LEFT_OUT)
            }
    except zipfile.BadZipFile as error:
        raise DataError(f"{wheel} is not a readable wheel") from error
    return CodeBase(files)


class _Module:
    """One file, cut up."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._lines = source.split("\n")
        self._body = ast.parse(source).body

    def excerpts(self) -> Iterator[Excerpt]:
        """Yields the file in order: functions, short classes, the methods of longer ones, and the lines between."""
        yield from self._cut(self._body, 0, len(self._lines), None)

    def definitions(self) -> Iterator[tuple[Excerpt, str, bool]]:
        """Yields functions, classes and methods: each whole, with its name and whether it is a class."""
        for node in self._body:
            if isinstance(node, FunctionNode | ast.ClassDef):
                yield self._whole(node, None), node.name, isinstance(node, ast.ClassDef)
            if isinstance(node, ast.ClassDef):
                methods = (method for method in node.body if isinstance(method, FunctionNode))
                yield from ((self._whole(method, node.name), method.name, False) for method in methods)

    def _cut(self, body: list[ast.stmt], first: int, past: int, owner: str | None) -> Iterator[Excerpt]:
        """Cuts the lines [first, past) of a module or a class."""
        at = first
        for node in body:
            if isinstance(node, FunctionNode | ast.ClassDef):
                start, end = _lines(node)
                yield from self._section(at, start, owner)
                whole = self._whole(node, owner)
                if isinstance(node, ast.ClassDef) and owner is None and len(whole.code) > _LONGEST_CLASS:
                    yield from self._cut(node.body, start, end, node.name)
                else:
                    yield whole
                at = end
        yield from self._section(at, past, owner)

    def _section(self, first: int, past: int, owner: str | None) -> Iterator[Excerpt]:
        code = _MANY_BLANK.sub("\n\n", "\n".join(self._lines[first:past]).strip("\n").rstrip())
        if code:
            yield Excerpt(self._path, owner, code)

    def _whole(self, node: FunctionNode | ast.ClassDef, owner: str | None) -> Excerpt:
        start, end = _lines(node)
        return Excerpt(self._path, owner, "\n".join(self._lines[start:end]))


def _lines(node: FunctionNode | ast.ClassDef) -> tuple[int, int]:
    """Returns the first and past-last line of a definition with its decorators, from 0."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return first - 1, node.end_lineno or node.lineno
