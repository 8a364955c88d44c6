"""Reads how a checkpoint asks to be sampled."""

from __future__ import annotations

from pathlib import Path

from kveval.errors import ConfigError
from kveval.models.folder import read_json_object

_DEFAULT = 1.0
_HIGHEST = 10.0


def serving_temperature(model: Path) -> float:
    """Returns the temperature in ``generation_config.json``, or 1.0 if the file names none that can be sampled at."""
    try:
        value = read_json_object(model / "generation_config.json").get("temperature")
    except ConfigError:
        return _DEFAULT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _DEFAULT
    return float(value) if 0 < value <= _HIGHEST else _DEFAULT
