"""The commands about tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import kveval
from kveval.cli.console import STDOUT, print_exactly, print_json
from kveval.cli.options import AsJson, IncludePath, lengths

if TYPE_CHECKING:
    from kveval.tasks.task_files import TaskInfo

tasks_app = typer.Typer(
    name="tasks",
    no_args_is_help=False,
    help="List tasks, or print one real prompt.",
    epilog="Examples:\n\n  kveval tasks\n\n  kveval tasks --include-path my_tasks\n\n"
    "  kveval tasks show niah_single --length 2k",
)


@tasks_app.callback(invoke_without_command=True)
def tasks_list(context: typer.Context, include_path: IncludePath = None, as_json: AsJson = False) -> None:
    """List tasks."""
    if context.invoked_subcommand is not None:
        return
    tasks = kveval.list_tasks(include_path)
    if as_json:
        print_json([{**asdict(task), "path": str(task.path)} for task in tasks])
    else:
        STDOUT.print(_table(tasks))


def _table(tasks: Sequence[TaskInfo]) -> Table:
    table = Table()
    for column in ("name", "family", "description"):
        table.add_column(column, no_wrap=column == "name")
    for task in tasks:
        table.add_row(task.name, task.family, task.description)
    return table


@tasks_app.command("show", epilog="Example:\n\n  kveval tasks show niah_single --length 2k --model models/smollm2")
def tasks_show(
    name: Annotated[str, typer.Argument(help="Name of a task.")],
    length: Annotated[str, typer.Option(help="Context length in tokens.")] = "2k",
    model: Annotated[
        Path | None,
        typer.Option(help="Checkpoint folder whose tokenizer counts. Default: about four characters per token."),
    ] = None,
    haystack: Annotated[str, typer.Option(help="Filler text: essays, wikipedia or generated.")] = "essays",
    seed: Annotated[int, typer.Option(help="Seed of the haystack.")] = 0,
    include_path: IncludePath = None,
    as_json: AsJson = False,
) -> None:
    """Print one real prompt with its answer."""
    (context_length,) = lengths(length, "--length") or [0]
    task = kveval.load_task(name, include_path)
    example = kveval.example_prompts(
        task, context_length=context_length, model=model, haystack=haystack, seed=seed
    )[0]  # fmt: skip
    form = "text"
    if task.chat_form:
        form += " (a sweep uses the chat endpoint if template and engine allow it; --dry-run says which)"
    about = {
        "form": form,
        "task": task.name,
        "answer": list(example.sample.doc["answers"]),
        "depth_percent": example.sample.depth_percent,
        "prompt_tokens": len(example.sample.prompt),
        "tokenizer": example.tokenizer,
        "sample_id": example.sample.sample_id,
    }
    if as_json:
        print_json({"prompt": example.text, **about})
        return
    print_exactly(f"{example.text}\n\n")
    for key, value in about.items():
        STDOUT.say(f"{key}: {value}")
