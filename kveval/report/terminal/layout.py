"""Colours and indentation that the terminal tables share."""

from __future__ import annotations

from rich.padding import Padding
from rich.text import Text

from kveval.judge.trust.problem import Problem
from kveval.report.text import visible

STYLES = {
    "pass": "bold green", "fail": "bold red", "regression": "bold red", "infrastructure": "bold magenta",
    "undecided": "bold yellow",
}  # fmt: skip


def not_judged(problem: Problem) -> Text:
    """Says why answers are worthless, before any number is read."""
    return Text(f"NOT JUDGED: {visible(problem.message)}", style="bold red")


def indented(text: str, *, left: int = 4, style: str = "") -> Padding:
    """Returns a paragraph indented by `left` columns."""
    return Padding(Text(visible(text), style=style), (0, 0, 0, left))
