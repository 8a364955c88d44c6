"""Reads how a checkpoint asks to be sampled."""

from __future__ import annotations

import json
from pathlib import Path

_DEFAULT = 1.0
_HIGHEST = 10.0


def serving_temperature(model: Path) -> float:
    """Returns the temperature in ``generation_config.json``, or 1.0 if the file names none that can be sampled at."""
    try:
        found = json.loads((model / "generation_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return _DEFAULT
    value = found.get("temperature") if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _DEFAULT
    return float(value) if 0 < value <= _HIGHEST else _DEFAULT
