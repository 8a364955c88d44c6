"""Colours and indentation that the terminal tables share."""

from __future__ import annotations

from rich.padding import Padding
from rich.text import Text

from kveval.report.text import visible

STYLES = {
    "pass": "bold green", "fail": "bold red", "regression": "bold red", "infrastructure": "bold magenta",
    "undecided": "bold yellow",
}  # fmt: skip


def indented(text: str, *, left: int = 4, style: str = "") -> Padding:
    """Returns a paragraph indented by `left` columns."""
    return Padding(Text(visible(text), style=style), (0, 0, 0, left))
