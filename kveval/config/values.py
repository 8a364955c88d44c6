"""Values that several keys of the configuration share, and how they are checked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Sequence
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
    return expanded(path).absolute()


def expanded(path: Path) -> Path:
    """Returns a path with ``~`` as the home folder. A user who does not exist has none: the path stays as it is."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def is_there(path: Path) -> bool:
    """Returns whether a path exists. One that no system could have, such as a name of 300 characters, does not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_listed_once(key: str, values: Sequence[Hashable]) -> None:
    """Raises ValueError: a value of the list `key` is there twice."""
    twice = next((value for value, count in Counter(values).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{key}: {twice} is listed twice; list every one once")


def _check_json(values: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"cannot be written as JSON ({error}); use: text, finite numbers, lists and mappings"
        ) from error
    return values


def _no_boolean(value: Any) -> Any:
    # YAML's yes and true would count as 1.
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    return value


ContextLength = Annotated[int, BeforeValidator(parse_length)]
AbsolutePath = Annotated[Path, AfterValidator(absolute)]
NoBoolean = BeforeValidator(_no_boolean)
JsonMapping = Annotated[dict[str, Any], AfterValidator(_check_json)]
