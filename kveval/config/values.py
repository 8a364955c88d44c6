"""Values that several keys of the configuration share, and how they are checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A name that is also a file name on every system."""

LONGEST_CONTEXT_TOKENS = 16 * 1024 * 1024
_LENGTH = re.compile(r"(\d+)([kKmM]?)")
_MULTIPLES = {"": 1, "k": 1024, "m": 1024 * 1024}


class StrictModel(BaseModel):
    """A part of the configuration: unknown keys, infinite numbers and later changes are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def parse_length(value: Any) -> int:
    """Returns the tokens that ``4096``, ``"4096"``, ``"4k"`` or ``"1m"`` mean; k = 1024.

    Raises:
        ValueError: anything else.
    """
    match = _LENGTH.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    tokens = int(match[1]) * _MULTIPLES[match[2].lower()] if match else 0
    if tokens <= 0:
        raise ValueError(f"{value!r} is not a context length; use tokens such as 4096, 4k (= 4096) or 1m")
    if tokens > LONGEST_CONTEXT_TOKENS:
        raise ValueError(f"{value!r} is longer than any model reads; use up to 16m")
    return tokens


def absolute(path: Path) -> Path:
    """Returns a path that means the same from every folder, since a run is read from other folders later."""
    return path.expanduser().absolute()


def check_listed_once(key: str, values: Sequence[object]) -> None:
    """Raises ValueError: a value of the list `key` is there twice."""
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice is not None:
        raise ValueError(f"{key}: {twice} is listed twice; list every one once")


def _no_boolean(value: Any) -> Any:
    # YAML's yes and true would count as 1.
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    return value


ContextLength = Annotated[int, BeforeValidator(parse_length)]
AbsolutePath = Annotated[Path, AfterValidator(absolute)]
NoBoolean = BeforeValidator(_no_boolean)
