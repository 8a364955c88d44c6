"""Engine settings as command-line flags."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """``{"max-num-seqs": 8, "enforce-eager": True}`` as command-line flags; False becomes ``--no-...`` (argparse's
    BooleanOptionalAction, which vLLM's flags are), None drops a flag, a mapping becomes its JSON."""
    result: list[str] = []
    for name, value in arguments.items():
        flag = "--" + flag_name(name)
        if value is True:
            result.append(flag)
        elif value is False:
            result.append(f"--no-{flag_name(name)}")
        elif value is not None:
            result += [flag, json.dumps(value) if isinstance(value, Mapping) else str(value)]
    return result


def by_flag(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their flag's name; ``{"no-enforce-eager": True}`` is ``{"enforce-eager": False}``."""
    named: dict[str, Any] = {}
    for name, value in arguments.items():
        flag = flag_name(name)
        is_negated = value is True and flag.startswith("no-")
        named[flag.removeprefix("no-") if is_negated else flag] = False if is_negated else value
    return named


def flag_name(name: str) -> str:
    """``max_num_seqs`` or ``--max-num-seqs`` as ``max-num-seqs``."""
    return name.lstrip("-").replace("_", "-")
