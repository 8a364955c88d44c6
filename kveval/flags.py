"""Engine settings as command-line flags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """``{"max-num-seqs": 8, "enforce-eager": True}`` as command-line flags; False and None drop a flag, a mapping
    becomes its JSON."""
    result: list[str] = []
    for name, value in arguments.items():
        flag = "--" + flag_name(name)
        if value is True:
            result.append(flag)
        elif value is not None and value is not False:
            result += [flag, json.dumps(value) if isinstance(value, Mapping) else str(value)]
    return result


def flag_name(name: str) -> str:
    """``max_num_seqs`` or ``--max-num-seqs`` as ``max-num-seqs``."""
    return name.lstrip("-").replace("_", "-")
