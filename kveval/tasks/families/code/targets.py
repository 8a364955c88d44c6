"""Makes definitions to plant and to ask about: real code with one thing in it replaced.

The answer is always something made up that replaced what the package says, so knowing the package by heart does not
help.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kveval.tasks.corpora.source_code import Definition, Excerpt, FunctionNode
from kveval.tasks.families.code.made_up import MadeUpNames

_MOST_PARAMETERS = 5
_SHORTEST, _LONGEST = 90, 420
_DESCRIPTION = range(40, 281)
_WORD = re.compile(r"[A-Za-z]+")
_CODE_LIKE = re.compile(r"[(){}\[\]=<>]|>>>|::")


@dataclass(frozen=True, slots=True)
class Target:
    """One planted definition and the question about it.

    Attributes:
        answer: as code.
        about: how the question refers to it: a description, a phrase, or the beginning of a line.
        original: strings of the unchanged definition. Filler that holds one is left out.
    """

    excerpt: Excerpt
    answer: str
    about: str
    original: frozenset[str]


Making = Callable[[Definition, MadeUpNames], Target | None]
"""Makes a target of a definition; None if the definition is not suitable."""


def described(definition: Definition, made_up: MadeUpNames) -> Target | None:
    """Removes a function's docstring and changes its name. The question quotes the docstring's first paragraph."""
    if definition.is_class or '"' not in definition.excerpt.code or definition.name.startswith("__"):
        return None
    node, source = definition.tree(), definition.source()
    description = first_paragraph(ast.get_docstring(node) or "")
    mentions = re.findall(rf"\b{definition.name}\b", _without_docstring(node, source))
    if (
        not 3 <= len(node.body) <= 12
        or len(description) not in _DESCRIPTION
        or _CODE_LIKE.search(description)
        or definition.name in description
        or len(mentions) != 1
    ):
        return None
    name = made_up.function(avoid=words(description))
    bare = _without_docstring(node, source)
    if len(bare) > _LONGEST:
        return None
    changed = re.sub(rf"\b{definition.name}\b", name, bare)
    return _target(definition, changed, name, description, {description.lower()[:40]})


def default_value(definition: Definition, made_up: MadeUpNames) -> Target | None:
    """Replaces the default value of one parameter. The question names the parameter and the function."""
    if not _askable(definition) or definition.is_class or "=" not in definition.excerpt.code:
        return None
    node, source = definition.tree(), definition.source()
    if not isinstance(node, FunctionNode):
        return None
    plain = [(name, value) for name, value in _defaults(node) if isinstance(value, ast.Constant)]
    if not plain:
        return None
    name, value = plain[-1]
    new = f'"{made_up.word()}"' if isinstance(value.value, str | None) else made_up.number(5)
    changed = replaced(source, [(*_span(source, value), new)])
    return _target(
        definition, changed, new.strip('"'), f"default value of the parameter {name} of {_called(definition)}"
    )


def parent_class(definition: Definition, made_up: MadeUpNames) -> Target | None:
    """Replaces the parent of a class. The question names the class."""
    if not _askable(definition) or not definition.is_class:
        return None
    node, source = definition.tree(), definition.source()
    if not isinstance(node, ast.ClassDef) or len(node.bases) != 1 or node.keywords:
        return None
    name = made_up.class_name()
    changed = replaced(source, [(*_span(source, node.bases[0]), name)])
    return _target(definition, changed, name, f"parent class of {_called(definition)}")


def decorator(definition: Definition, made_up: MadeUpNames) -> Target | None:
    """Replaces the decorator of a function. The question names the function."""
    if not _askable(definition) or definition.is_class or not definition.source().startswith("@"):
        return None
    node, source = definition.tree(), definition.source()
    if len(node.decorator_list) != 1:
        return None
    name = made_up.variable()
    changed = replaced(source, [(*_span(source, node.decorator_list[0]), name)])
    return _target(definition, changed, name, f"decorator of {_called(definition)}")


def signature(definition: Definition, made_up: MadeUpNames) -> Target | None:
    """Replaces a function's name and parameters. The question gives the beginning of its wrapper's first line."""
    if definition.is_class or definition.name.startswith("__") or not _SHORTEST <= len(definition.source()) <= _LONGEST:
        return None
    node, source = definition.tree(), definition.source()
    if not isinstance(node, ast.FunctionDef) or _has_own_scopes(node):
        return None
    own = [arg.arg for arg in _arguments(node) if arg.arg not in ("self", "cls")]
    if not 2 <= len(own) <= _MOST_PARAMETERS or definition.name in own:
        return None
    names = {old: made_up.variable() for old in own}
    names[definition.name] = made_up.function()
    changed = _renamed(node, source, names)
    written = ast.parse(changed).body[0]
    if not isinstance(written, ast.FunctionDef):
        return None
    return _target(definition, changed, f"{ast.unparse(written.args)}):", f"def {written.name}(")


def planted(
    definitions: Sequence[Definition], order: Sequence[int], made_up: MadeUpNames, making: Sequence[Making]
) -> list[Target]:
    """Makes one target with each of `making`, from definitions in the given order.

    No two share a name or a description, and none mentions the answer to another.
    """
    targets: list[Target] = []
    indexes = iter(order)
    for make in making:
        for index in indexes:
            target = make(definitions[index], made_up)
            if target is not None and not any(_confusable(target, other) for other in targets):
                targets.append(target)
                break
    return targets


def first_paragraph(docstring: str) -> str:
    """Returns the first paragraph of a docstring on one line."""
    return " ".join(docstring.strip().split("\n\n")[0].split())


def words(text: str) -> set[str]:
    """Returns the lower-case words of a text."""
    return {word.lower() for word in _WORD.findall(text)}


def replaced(source: str, changes: Sequence[tuple[int, int, str]]) -> str:
    """Replaces spans (first character, past-last, new text) of a text. Spans must not overlap."""
    for first, past, text in sorted(changes, reverse=True):
        source = source[:first] + text + source[past:]
    return source


def _askable(definition: Definition) -> bool:
    long_enough = _SHORTEST <= len(definition.excerpt.code) <= _LONGEST
    return definition.unique and long_enough and not definition.name.startswith("__")


def _called(definition: Definition) -> str:
    if definition.is_class:
        return f"the class {definition.name}"
    owner = definition.excerpt.owner
    return f"the method {definition.name} of the class {owner}" if owner else f"the function {definition.name}"


def _target(definition: Definition, changed: str, answer: str, about: str, original: set[str] | None = None) -> Target:
    heads = {f"class {definition.name.lower()}"} if definition.is_class else {f"def {definition.name.lower()}("}
    return Target(definition.with_source(changed), answer, about, frozenset(heads | (original or set())))


def _confusable(one: Target, other: Target) -> bool:
    codes = one.excerpt.code.lower(), other.excerpt.code.lower()
    originals = any(text in codes[1] for text in one.original) or any(text in codes[0] for text in other.original)
    return originals or one.about == other.about or one.original == other.original


def _defaults(node: FunctionNode) -> list[tuple[str, ast.expr]]:
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = list(zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults, strict=True))
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return [(arg.arg, value) for arg, value in [*pairs, *named] if value is not None]


def _arguments(node: FunctionNode) -> list[ast.arg]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return arguments + [arg for arg in (node.args.vararg, node.args.kwarg) if arg is not None]


def _has_own_scopes(node: ast.FunctionDef) -> bool:
    """Says whether a function holds functions, or f-strings, whose columns older Pythons do not know."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.JoinedStr, ast.ClassDef)
    return any(isinstance(child, inner) for statement in node.body for child in ast.walk(statement))


def _renamed(node: ast.FunctionDef, source: str, names: dict[str, str]) -> str:
    changes = []
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and child.id in names:
            changes.append((*_span(source, child), names[child.id]))
        elif isinstance(child, ast.arg) and child.arg in names:
            first, _ = _span(source, child)
            changes.append((first, first + len(child.arg), names[child.arg]))
    start = source.index(f"def {node.name}") + len("def ")
    changes.append((start, start + len(node.name), names[node.name]))
    return replaced(source, changes)


def _without_docstring(node: FunctionNode | ast.ClassDef, source: str) -> str:
    docstring = node.body[0]
    lines = source.split("\n")
    return "\n".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])


def _span(source: str, node: ast.expr | ast.arg) -> tuple[int, int]:
    """First and past-last character of a node. The source is ASCII, so columns in bytes are columns in characters."""
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return starts[node.lineno - 1] + node.col_offset, starts[end_line - 1] + end_column
