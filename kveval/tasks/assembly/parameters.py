"""Numbers a builder takes from its task's YAML metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from kveval.errors import ConfigError


class Parameters:
    """Base of builders whose parameters, the fields of a frozen dataclass, are all whole numbers from 1."""

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Reads the fields that metadata has; the others keep their defaults.

        Raises:
            ConfigError: a value that is not a whole number from 1.
        """
        found = {field.name: metadata[field.name] for field in fields(cls) if field.name in metadata}  # type: ignore[arg-type]
        for name, value in found.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}={value!r}; allowed: whole numbers from 1")
        return cls(**found)
