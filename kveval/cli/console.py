"""Where commands print."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

STDOUT = Console()
STDERR = Console(stderr=True)


def print_json(value: Any) -> None:
    """Strict JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
