"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kveval.cli.start.completion import complete_variants
from kveval.errors import UsageError

Model = Annotated[Path | None, typer.Option(help="Folder with a Hugging Face checkpoint.")]
Variants = Annotated[
    str | None, typer.Option(help="Cache settings, such as bf16,fp8,int8.", autocompletion=complete_variants)
]
IncludePath = Annotated[
    Path | None,
    typer.Option(help="Folder with task files of your own. The code they name is run, so use only what you trust."),
]
AcceptFinding = Annotated[
    list[str] | None,
    typer.Option(help="Measure a variant although it has this error finding. Can be given several times."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and start nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def given(**flags: Any) -> dict[str, Any]:
    """Returns the flags that were given. Without a flag, the configuration decides."""
    return {key: value for key, value in flags.items() if value is not None}


def names(text: str | None) -> list[str] | None:
    """Splits ``a,b`` into names. None stays None: the flag was not given."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def lengths(text: str | None, flag: str = "--lengths") -> list[int] | None:
    """Splits ``4k,16k`` into tokens. None stays None."""
    from kveval.config.values import parse_length

    try:
        return None if text is None else [parse_length(part) for part in names(text) or []]
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
