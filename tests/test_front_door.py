"""What `import kveval` offers."""

from __future__ import annotations

import inspect

import pytest

import kveval


def test_every_name_is_there() -> None:
    for name in kveval.__all__:
        assert getattr(kveval, name) is not None


def test_completion_lists_every_name() -> None:
    assert set(kveval.__all__) <= set(dir(kveval))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No kveval attribute swep"):
        _ = kveval.swep  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in kveval.__all__ if inspect.isfunction(getattr(kveval, name))])
def test_every_function_says_what_it_takes_returns_and_raises(name: str) -> None:
    function = getattr(kveval, name)
    said = inspect.getdoc(function) or ""
    assert "Returns:" in said
    assert "Example:" in said
    for parameter in inspect.signature(function).parameters:
        assert parameter in said
