"""Reads text as Python source, without running it."""

from __future__ import annotations

import ast


def statements_of(source: str) -> list[ast.stmt] | None:
    """Returns the statements of a source; None if Python cannot read it, because it is wrong or too deep."""
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
