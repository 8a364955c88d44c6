"""Colours and indentation that the terminal tables share."""

from __future__ import annotations

from collections.abc import Iterator

from rich.padding import Padding
from rich.text import Text

from kveval.judge.trust.problem import Problem
from kveval.report.overview import Overview
from kveval.report.text import visible

STYLES = {
    "pass": "bold green", "fail": "bold red", "regression": "bold red", "infrastructure": "bold magenta",
    "undecided": "bold yellow",
}  # fmt: skip


def not_judged(problem: Problem) -> Text:
    """Says why answers are worthless, before any number is read."""
    return Text(f"NOT JUDGED: {visible(problem.message)}", style="bold red")


def overview_lines(overview: Overview) -> Iterator[Text]:
    """Shows the verdict on every candidate, and what to serve with."""
    for answer in overview.answers:
        yield Text.assemble((f"{visible(answer.verdict)}.", STYLES[answer.word]), f" {visible(answer.details)}")
    made = overview.recommendation
    if made is not None and made.chosen is None:
        yield Text(visible(f"Stay with {made.gate.run.manifest.baseline}: {made.reason}."))


def indented(text: str, *, left: int = 4, style: str = "") -> Padding:
    """Returns a paragraph indented by `left` columns."""
    return Padding(Text(visible(text), style=style), (0, 0, 0, left))
