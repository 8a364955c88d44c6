"""The command that writes a first configuration."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import kveval
from kveval.cli.console import STDOUT
from kveval.cli.options import Model, Variants, given, lengths, names
from kveval.errors import UsageError

init_app = typer.Typer()

_LENGTHS = "up to the window"


@init_app.command(
    epilog="Examples:\n\n  kveval init\n\n  kveval init nightly.yaml --model /models/Llama-3.1-8B-Instruct\n\n"
    "  kveval init servers.yaml --model DIR --endpoint bf16=http://gpu1:8000 --endpoint fp8=http://gpu2:8000 "
    "--served-model llama"
)
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("sweep.yaml"),
    model: Model = None,
    variants: Variants = None,
    context_lengths: Annotated[
        str | None,
        typer.Option("--lengths", help="Context lengths in tokens, such as 4k,16k. Default: up to the window."),
    ] = None,
    tasks: Annotated[str | None, typer.Option(help="Task names; 'kveval tasks' lists them.")] = None,
    samples: Annotated[int | None, typer.Option(help="Samples per task and context length.")] = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL", help="A server that runs already, once for each variant, in place of --variants."
        ),
    ] = None,
    served_model: Annotated[str | None, typer.Option(help="What these servers call the model.")] = None,
    python: Annotated[Path | None, typer.Option(help="Interpreter of the environment vLLM lives in.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a configuration with comments. Asks for what no flag gives, if a person is there to answer."""
    if sys.stdin.isatty():
        from kveval.api.starting import DEFAULT_SAMPLES, DEFAULT_TASKS, DEFAULT_VARIANTS

        model = model or Path(typer.prompt("Model (a checkpoint folder, or smollm2)"))
        if variants is None and not endpoint:
            variants = typer.prompt("Cache settings, the baseline first", ",".join(DEFAULT_VARIANTS))
        if context_lengths is None:
            context_lengths = typer.prompt("Context lengths", _LENGTHS)
        tasks = tasks or typer.prompt("Tasks", ",".join(DEFAULT_TASKS))
        samples = samples or typer.prompt("Samples per task and length", DEFAULT_SAMPLES, type=int)
    if model is None:
        raise UsageError("--model: required, not given; use: a checkpoint folder, or smollm2")
    if variants is not None and endpoint:
        raise UsageError("--variants: the servers of --endpoint are the variants; use one of the two")
    flags: dict[str, Any] = given(
        variants=names(variants),
        context_lengths=None if context_lengths == _LENGTHS else lengths(context_lengths),
        tasks=names(tasks),
        samples=samples,
        endpoints=dict(map(_pair, endpoint)) if endpoint else None,
        served_model=served_model,
        python=python,
    )
    written = kveval.write_config(file, model=model, force=force, **flags)
    STDOUT.say(f"written: {written}")
    STDOUT.say(f"next: kveval sweep {shlex.quote(str(written))} --dry-run")


def _pair(text: str) -> tuple[str, str]:
    name, is_pair, url = text.partition("=")
    if not is_pair or "://" in name:
        # The address may hold a password, and is not repeated.
        raise UsageError("--endpoint: not NAME=URL; use for example bf16=http://localhost:8000")
    return name, url
