"""Assembles the command line. Every command parses its flags, calls one function of `kveval`, and prints."""

from __future__ import annotations

import traceback
from typing import Annotated

import typer
from typer.exceptions import TyperException

import kveval
from kveval.cli.console import STDERR, STDOUT, print_line
from kveval.cli.data import data_app
from kveval.cli.judge import judge_app
from kveval.cli.load import load_app
from kveval.cli.measure import measure_app
from kveval.cli.memory import memory_app
from kveval.cli.runs import runs_app
from kveval.cli.tasks import tasks_app
from kveval.errors import EngineError, ExitCode, KvevalError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measures how much long-context accuracy a quantized KV cache costs. kveval starts the real engine with every "
    "cache setting, asks all of them the same questions, and says what was lost.",
)
app.add_typer(measure_app)
app.add_typer(runs_app)
app.add_typer(memory_app)
app.add_typer(tasks_app, name="tasks")
app.add_typer(data_app, name="data")
app.add_typer(judge_app)
app.add_typer(load_app)


def main() -> None:
    """Runs a command and exits with its code. An expected error is one line, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except KvevalError as error:
        if isinstance(error, EngineError) and error.log_tail:
            STDERR.print(error.log_tail, style="dim", markup=False, highlight=False)
        code = _fail(str(error), error.exit_code)
    except TyperException as error:
        message = error.format_message().rstrip(".")
        code = _fail(f"{message}; see --help", error.exit_code) if message else error.exit_code
    except Exception as error:
        # Python's own exit code for a crash is 1, which here means a loss.
        traceback.print_exc()
        code = _fail(f"kveval itself failed: {type(error).__name__}: {error}", ExitCode.INFRASTRUCTURE)
    raise SystemExit(int(code) if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    print_line(f"error: {message}", STDERR)
    return code


def _version(wanted: bool) -> None:
    if wanted:
        STDOUT.print(kveval.__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version
