"""Assembles the command line. Every command parses its flags, calls one function of `kveval`, and prints."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

import kveval
from kveval.cli.console import STDERR, STDOUT, OutputClosedError, guarded_streams
from kveval.cli.crash import report_crash
from kveval.cli.data import data_app
from kveval.cli.judge import judge_app
from kveval.cli.load import load_app
from kveval.cli.measure import measure_app
from kveval.cli.memory import memory_app
from kveval.cli.runs import runs_app
from kveval.cli.start.doctor import doctor_app
from kveval.cli.start.init import init_app
from kveval.cli.start.runs import listing_app
from kveval.cli.tasks import tasks_app
from kveval.errors import EngineError, ExitCode, FileAccessError, InternalError, KvevalError, UsageError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measures how much long-context accuracy a quantized KV cache costs. kveval starts the real engine with every "
    "cache setting, asks all of them the same questions, and says what was lost.",
)
_PANELS = {
    "Plan": (doctor_app, init_app, memory_app, tasks_app, data_app),
    "Measure": (measure_app, load_app),
    "Decide": (judge_app,),
    "Inspect": (listing_app, runs_app),
}
for _panel, _apps in _PANELS.items():
    for _commands in _apps:
        for _command in _commands.registered_commands:
            # Commands of a group of its own, such as `kveval tasks`, are listed under that group.
            _command.rich_help_panel = None if _commands.info.name else _panel
        app.add_typer(_commands, rich_help_panel=_panel)


def main() -> None:
    """Runs a command and exits with its code. An error is one line, never a traceback, and never code 1."""
    code: int
    try:
        with guarded_streams():
            code = _run(sys.argv[1:])
    except OutputClosedError as error:
        code = error.exit_code
    raise SystemExit(code)


def _run(arguments: list[str]) -> int:
    try:
        if sys.stdout is None:
            raise FileAccessError("standard output is closed; use: > /dev/null to print nothing")
        _check_encoding(arguments)
        ended = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except OutputClosedError:
        raise
    except BaseException as error:
        message, code = _explained(error, arguments)
        if message:
            STDERR.say(f"error: {message}")
        return code
    return int(ended) if isinstance(ended, int) else 0


def _explained(error: BaseException, arguments: list[str]) -> tuple[str, int]:
    """Returns what to say about an error, and the exit code."""
    if isinstance(error, KvevalError) and not isinstance(error, InternalError):
        if isinstance(error, EngineError) and error.log_tail:
            STDERR.print(error.log_tail, style="dim", markup=False, highlight=False)
        return str(error), error.exit_code
    if isinstance(error, TyperException):
        message = error.format_message().rstrip(".")
        # Typer's own errors are about how a command is used, whatever code they carry.
        return f"{message}; see --help" if message else "", ExitCode.USAGE if error.exit_code == 1 else error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "", 130
    if isinstance(error, SystemExit) and not error.code:
        return "", 0
    if isinstance(error, OSError) and error.errno is not None:
        about = f"{error.filename}: " if error.filename else ""
        return f"{about}cannot be used ({os.strerror(error.errno)})", ExitCode.INFRASTRUCTURE
    return report_crash(error, arguments)


def _check_encoding(arguments: list[str]) -> None:
    # Python keeps bytes that are not UTF-8 as surrogates, which no run directory and no report can hold.
    for position, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UsageError(f"argument {position}: {argument!r} is not UTF-8; use: a name in UTF-8") from None


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
