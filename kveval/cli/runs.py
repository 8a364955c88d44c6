"""The commands that show what a run holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kveval
from kveval.cli.console import STDOUT, print_exactly, print_json
from kveval.cli.start.completion import complete_run, complete_sample

runs_app = typer.Typer()


@runs_app.command(
    epilog="Examples:\n\n"
    "  kveval report runs/demo\n\n"
    "  kveval report runs/monday runs/tuesday runs/wednesday --out history.html"
)
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            autocompletion=complete_run,
            help="A run directory. Several also give a page of their history.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write. Default: RUN/report.html. The history of several: history.html beside the last run."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON as well.")] = False,
) -> None:
    """Build the HTML report of a run again. Given several runs, also build a page of their history."""
    from kveval.report.documents.summary import summary
    from kveval.report.history.nights import build_reports

    written = build_reports(runs, out)
    if as_json:
        documents = [summary(run) for run in runs]
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for name, path in written:
        STDOUT.say(f"{name}: {path}")


@runs_app.command(epilog="Example:\n\n  kveval history runs")
def history(
    folder: Annotated[Path, typer.Argument(help="A folder with run directories.")],
    out: Annotated[Path | None, typer.Option(help="The page to write. Default: FOLDER/history.html.")] = None,
) -> None:
    """Build one page of all runs in a folder: newest first, what fails since when, and where a level changed."""
    page = kveval.build_history(folder, out)
    STDOUT.say(f"history: {page}")


@runs_app.command(
    epilog="Examples:\n\n"
    "  kveval show runs/demo 3f0c9a1be2d45c77\n\n"
    "  kveval show runs/demo 3f0c9a --prompt > prompt.txt\n\n"
    "  kveval show runs/demo 3f0c9a --json"
)
def show(
    run: Annotated[Path, typer.Argument(help="A run directory.", autocompletion=complete_run)],
    sample_id: Annotated[
        str,
        typer.Argument(help="A sample id, or a beginning that only one sample has.", autocompletion=complete_sample),
    ],
    only_prompt: Annotated[
        bool, typer.Option("--prompt", help="Print the prompt alone, byte for byte as it was asked.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print prompt, token ids and every answer as JSON.")] = False,
) -> None:
    """Print one sample: its full prompt, and what every variant answered."""
    from kveval.report.terminal.sample import answers_text

    asked = kveval.show_sample(run, sample_id)
    if as_json:
        print_json(asked.document())
        return
    print_exactly(asked.text)
    if not only_prompt:
        print_exactly(f"\n\n{answers_text(asked.row, asked.records)}")
