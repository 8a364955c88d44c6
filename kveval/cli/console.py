"""Where commands print."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

STDOUT = Console()
STDERR = Console(stderr=True)


def print_json(value: Any) -> None:
    """Writes strict JSON to standard output."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_line(text: str, console: Console = STDOUT) -> None:
    """Writes one line as it is: not wrapped, and without markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
