"""Event streams as a server sends them."""

from __future__ import annotations

import json
from typing import Any


def events(*values: Any, done: bool = True) -> str:
    """A stream of `values`, each as JSON if it is no text already."""
    lines = [f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n" for value in values]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""])


def choice(**fields: Any) -> dict[str, Any]:
    """An event with one output token that ends the answer."""
    return {"choices": [{"text": "x", "finish_reason": "stop", **fields}]}
