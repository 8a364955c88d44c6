"""Runs the commands that judge as a shell does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from kveval.cli.app import app
from kveval.errors import KvevalError


@dataclass(frozen=True)
class Result:
    code: int
    text: str


def kveval(*arguments: str | Path) -> Result:
    """Ends as `kveval.cli.app.main` does: a deliberate error is one line and its exit code."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(done.exception, KvevalError):
        return Result(done.exception.exit_code, f"error: {done.exception}")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Result(done.exit_code, " ".join(done.output.split()))


def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "verdict.json").read_text())
    return found
