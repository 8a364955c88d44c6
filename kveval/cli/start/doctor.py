"""The command that says what this machine can do."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import kveval
from kveval.cli.console import STDOUT, print_json
from kveval.cli.options import AsJson
from kveval.errors import ExitCode

doctor_app = typer.Typer()

_STYLES = {"ok": "green", "note": "yellow", "missing": "bold red"}


@doctor_app.command(
    epilog="Examples:\n\n  kveval doctor\n\n  kveval doctor --model /models/Llama-3.1-8B-Instruct\n\n"
    "  kveval doctor --python /opt/vllm/bin/python --json\n\n"
    "Exit codes: 0 a sweep can run here, 3 something is missing."
)
def doctor(
    model: Annotated[
        Path | None, typer.Option(help="Also say at which context lengths this checkpoint fits, per format.")
    ] = None,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter of the environment vLLM lives in. Default: kveval's own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what this machine can do, and what to do about what it cannot. Starts no engine."""
    machine = kveval.check_machine(model=model, python=python)
    if as_json:
        print_json(asdict(machine))
    else:
        width = max(len(check.name) for check in machine.checks)
        for check in machine.checks:
            line = Text.assemble(
                (f"{check.state:<7}", _STYLES[check.state]), f"  {check.name:<{width}}  {check.found}",
                (f" -> {check.todo}" if check.todo else "", "bold"),
            )  # fmt: skip
            STDOUT.print(line, soft_wrap=True)
        missing = ", ".join(check.name for check in machine.checks if check.state == "missing")
        STDOUT.say(f"next: {machine.next_command}" if machine.can_sweep else f"no sweep can run here: {missing}")
    raise typer.Exit(ExitCode.OK if machine.can_sweep else ExitCode.INFRASTRUCTURE)
