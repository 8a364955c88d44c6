"""What `import kveval` offers."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import kveval


def test_every_name_is_there() -> None:
    for name in kveval.__all__:
        assert getattr(kveval, name) is not None


def test_the_names_for_type_checkers_are_those_that_are_imported_lazily() -> None:
    tree = ast.parse(Path(kveval.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == kveval._HOMES
    errors = {name for name in kveval.__all__ if name.endswith("Error")}
    assert set(kveval.__all__) == {*kveval._HOMES, *errors}


def test_completion_lists_every_name() -> None:
    assert set(kveval.__all__) <= set(dir(kveval))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kveval' has no attribute 'swep'"):
        _ = kveval.swep  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in kveval.__all__ if inspect.isfunction(getattr(kveval, name))])
def test_every_function_says_what_it_takes_returns_and_raises(name: str) -> None:
    function = getattr(kveval, name)
    said = inspect.getdoc(function) or ""
    assert "Returns:" in said
    assert "Example:" in said
    for parameter in inspect.signature(function).parameters:
        assert parameter in said
