"""Reads a builder's parameters from the metadata of its task's YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kveval.errors import ConfigError


def read_parameters(builder: type, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the values that metadata has for the fields of a dataclass; the other fields keep their defaults.

    The type of a field's default says what is allowed: a whole number from 1 for ``int``, a share from 0 to 1 for
    ``float``. Check anything else in the dataclass's ``__post_init__``, for instance with `check_choice`.

    Raises:
        ConfigError: a value of the wrong kind or out of range.
    """
    found = {field.name: field.default for field in fields(builder) if field.name in metadata}
    return {name: _checked(name, metadata[name], type(default)) for name, default in found.items()}


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raises ConfigError unless the value of the parameter `name` is one of `choices`."""
    if value not in choices:
        raise ConfigError(f"{name}={value!r}; use {' or '.join(choices)}")


def _checked(name: str, value: Any, kind: type) -> Any:
    if kind is int and (type(value) is not int or value < 1):
        raise ConfigError(f"{name}={value!r}; use a whole number from 1")
    if kind is float:
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise ConfigError(f"{name}={value!r}; use a number from 0 to 1")
        return float(value)
    return value
