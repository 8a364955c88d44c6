"""The commands about texts and models that kveval downloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

import kveval
from kveval.cli.console import STDERR, STDOUT, print_json
from kveval.cli.options import AsJson

if TYPE_CHECKING:
    from kveval.api.data import Download

data_app = typer.Typer(
    name="data",
    no_args_is_help=False,
    help="List texts and demo models with source, size, licence and place, or fetch them.",
    epilog="Examples:\n\n  kveval data\n\n  kveval data fetch\n\n  kveval data fetch smollm2",
)

_STATE_STYLES = {"present": "green", "not fetched": "yellow", "damaged": "bold red"}


@data_app.callback(invoke_without_command=True)
def data_list(context: typer.Context, as_json: AsJson = False) -> None:
    """List texts and demo models."""
    if context.invoked_subcommand is None:
        _print(kveval.list_data(), as_json)


@data_app.command("fetch", epilog="Examples:\n\n  kveval data fetch\n\n  kveval data fetch long-context smollm2")
def data_fetch(
    names: Annotated[list[str] | None, typer.Argument(help="What to fetch. Default: every text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch texts and demo models once. Afterwards they are used offline."""
    _print(kveval.fetch_data(names or [], lambda status: STDERR.say(status)), as_json)


def _print(downloads: Sequence[Download], as_json: bool) -> None:
    if as_json:
        print_json([{**asdict(download), "path": str(download.path)} for download in downloads])
    else:
        STDOUT.print(_table(downloads), soft_wrap=True)


def _table(downloads: Sequence[Download]) -> Group:
    from kveval.downloads import cache_directory

    parts: list[Text | Table] = [Text(f"cache: {cache_directory()} (set KVEVAL_CACHE to move it)")]
    for download in downloads:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        state = (download.state, _STATE_STYLES[download.state])
        grid.add_row(download.kind, Text.assemble((download.name, "bold"), "  ", state))
        grid.add_row("source", ", ".join(download.packages))
        grid.add_row("size", f"{download.size_bytes / 1e6:.1f} MB to download")
        grid.add_row("licence", download.licence)
        grid.add_row("sha256", download.sha256)
        grid.add_row("path", str(download.path))
        parts += [Text(), grid]
    return Group(*parts)
