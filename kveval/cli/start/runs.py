"""The command that lists runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

import kveval
from kveval.cli.console import STDOUT, print_json
from kveval.cli.options import AsJson

if TYPE_CHECKING:
    from kveval.report.documents.listing import ListedRun

listing_app = typer.Typer()

_STYLES = {"pass": "green", "regression": "bold red", "infrastructure": "red", "undecided": "yellow"}
_UNITS = ("B", "KB", "MB", "GB", "TB")


@listing_app.command(epilog="Examples:\n\n  kveval runs\n\n  kveval runs nights --json")
def runs(
    folder: Annotated[Path, typer.Argument(help="A folder of run directories.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first, with the verdicts that the gate wrote. Judges nothing again."""
    listed = kveval.list_runs(folder)
    if as_json:
        print_json([{**asdict(run), "path": str(run.path)} for run in listed])
        return
    found = [run for run in listed if run.problem is None]
    STDOUT.print(_table(found)) if found else STDOUT.say(f"{folder}: holds no run that can be read")
    for run in listed:
        if run.problem is not None:
            STDOUT.say(f"{run.path}: {run.problem}")
    STDOUT.say(f"next: {_next(found)}")


def _table(runs: Sequence[ListedRun]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("run", "model", "date", "status", "verdict"):
        table.add_column(column, overflow="fold", no_wrap=column in ("date", "status"))
    for column in ("questions", "size"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in runs:
        date = (run.created or "")[:10]
        # A name comes from a folder and a manifest, and is no markup.
        cells = (Text(text or "") for text in (run.name, run.model, date, run.status))
        table.add_row(*cells, _verdicts(run), f"{run.questions:,}", _size(run.size_bytes))
    return table


def _verdicts(run: ListedRun) -> Text:
    lines = []
    for name, verdict in run.candidates.items():
        style = _STYLES.get(verdict.state or "", "dim")
        emulated = " (emulated)" if name in run.emulated else ""
        lines.append(Text.assemble(f"{name}{emulated} ", (verdict.state or verdict.reason or "", style)))
    # What is wrong with the whole run can be worse than any candidate's verdict.
    whole = run.verdict.state
    if whole is not None and whole not in {verdict.state for verdict in run.candidates.values()}:
        lines.append(Text.assemble("run ", (whole, _STYLES.get(whole, "red"))))
    return Text("\n").join(lines)


def _size(size: int | None) -> str:
    number, unit = float(size or 0), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return "?" if size is None else f"{number:.{min(unit, 1)}f} {_UNITS[unit]}"


def _next(runs: Sequence[ListedRun]) -> str:
    """Returns what to type next: about the newest run, or the first sweep where there is none."""
    if not runs:
        return "kveval sweep demo"
    newest, path = runs[0], shlex.quote(str(runs[0].path))
    if newest.status == "incomplete":
        return f"kveval sweep --resume --out {path}"
    is_judged = newest.status != "complete" or newest.verdict.state is not None
    return f"kveval report {path}" if is_judged else f"kveval gate {path}"
