"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.exceptions import TyperException

import kveval
from kveval.cli.console import STDERR, STDOUT, print_json
from kveval.cli.judge import judge_app
from kveval.cli.load import load_app
from kveval.errors import EngineError, KvevalError, UsageError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Long-context accuracy evaluation for KV-cache quantization: the same questions on every cache setting of "
    "the real engine, and what was lost.",
)
tasks_app = typer.Typer(
    no_args_is_help=False,
    help="List tasks, or print one real prompt.",
    epilog="Examples:\n\n  kveval tasks\n\n  kveval tasks --include-path my_tasks\n\n"
    "  kveval tasks show niah_single --length 2k",
)
app.add_typer(tasks_app, name="tasks")
data_app = typer.Typer(
    no_args_is_help=False,
    help="List texts and demo models with source, size, licence and place, or fetch them.",
    epilog="Examples:\n\n  kveval data\n\n  kveval data fetch\n\n  kveval data fetch smollm2",
)
app.add_typer(data_app, name="data")

app.add_typer(judge_app)
app.add_typer(load_app)


def main() -> None:
    """Entry point: every deliberate error is one line and an exit code, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except KvevalError as error:
        _fail(error)
    except TyperException as error:
        message = error.format_message().rstrip(".")
        if message:
            STDERR.print(f"error: {message}; see --help", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(error.exit_code) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def _fail(error: KvevalError) -> NoReturn:
    if isinstance(error, EngineError) and error.log_tail:
        STDERR.print(error.log_tail, style="dim", markup=False, highlight=False)
    STDERR.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(error.exit_code)


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


IncludePath = Annotated[
    Path | None,
    typer.Option(help="Folder of task files beside those that ship. The code they name is run: trust it."),
]


def _names(text: str | None) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] if text is not None else None


@app.command(
    epilog="Examples:\n\n"
    "  kveval sweep demo\n\n"
    "  kveval sweep nightly.yaml --out runs/tonight\n\n"
    "  kveval sweep nightly.yaml --variants bf16,fp8 --lengths 16k,64k --tasks niah_multikey --dry-run\n\n"
    "  kveval sweep nightly.yaml --out runs/tonight --resume"
)
def sweep(
    config: Annotated[str, typer.Argument(help="A YAML file, or a preset that ships with kveval such as 'demo'.")],
    model: Annotated[Path | None, typer.Option(help="Folder with a Hugging Face checkpoint.")] = None,
    variants: Annotated[str | None, typer.Option(help="Cache settings, such as bf16,fp8,int8.")] = None,
    lengths: Annotated[str | None, typer.Option(help="Context lengths in tokens, such as 4k,16k (k = 1024).")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Task names ('kveval tasks' lists them), lm_eval:NAME, or prompts.jsonl.")
    ] = None,
    include_path: IncludePath = None,
    samples: Annotated[str | None, typer.Option(metavar="INTEGER", help="Samples per task and context length.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="INTEGER", help="Seed of every haystack.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; default runs/CONFIG.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out: ask what is missing.")] = False,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="With --resume: ask again what ended as engine_error.")
    ] = False,
    accept_finding: Annotated[
        list[str] | None, typer.Option(help="Measure a variant in spite of this error finding; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and start nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan or the result as JSON.")] = False,
) -> None:
    """Ask every cache setting the same long-context questions and compare the answers."""
    from kveval.cli import commands

    overrides: dict[str, Any] = {
        "model": model,
        "variants": _names(variants),
        "context_lengths": _lengths(lengths),
        "tasks": _names(tasks),
        "include_path": include_path,
        "samples": samples,
        "seed": seed,
        "out": out,
        "accept_findings": accept_finding or None,
    }
    given = {key: value for key, value in overrides.items() if value is not None}
    if retry_errors and not resume:
        raise UsageError("--retry-errors: works on a run that exists; allowed: together with --resume")
    if dry_run:
        plan = commands.plan_sweep(config, given, resume=resume)
        print_json(plan) if as_json else STDOUT.print(commands.plan_table(plan))
        return
    result = commands.run_sweep(config, given, resume=resume, retry_errors=retry_errors, console=STDERR)
    if as_json:
        print_json(result.summary)
    else:
        STDOUT.print(result.table)
        STDOUT.print(f"report: {result.report}", markup=False, highlight=False, soft_wrap=True)
    if result.problem is not None:
        raise result.problem


def _lengths(text: str | None, flag: str = "--lengths") -> list[int] | None:
    from kveval.config.sweep import parse_length

    try:
        return [parse_length(part) for part in _names(text) or []] if text is not None else None
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


@app.command(
    epilog="Examples:\n\n"
    "  kveval report runs/demo\n\n"
    "  kveval report runs/monday runs/tuesday runs/wednesday --out history.html"
)
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="A run directory; several: also their history.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write; default RUN/report.html, for several history.html beside the last of them."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON as well.")] = False,
) -> None:
    """Build the HTML report of a run again; of several runs, theirs and a page of their history."""
    from kveval.report.history.nights import build_reports
    from kveval.report.terminal.summary import summary

    written = build_reports(runs, out)
    if as_json:
        documents = [summary(run) for run in runs]
        print_json(documents[0] if len(documents) == 1 else documents)
        return
    for name, path in written:
        STDOUT.print(f"{name}: {path}", markup=False, highlight=False, soft_wrap=True)


@app.command(epilog="Examples:\n\n  kveval show runs/demo 3f0c9a1be2d45c77\n\n  kveval show runs/demo 3f0c9a --json")
def show(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    sample_id: Annotated[str, typer.Argument(help="Of a sample, or a beginning that only one has.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print prompt, token ids and every answer as JSON.")] = False,
) -> None:
    """Print the full prompt of one sample, byte for byte what was asked."""
    from kveval.cli import commands

    shown = commands.show_sample(run, sample_id)
    if as_json:
        print_json(shown)
    else:
        sys.stdout.buffer.write(shown["prompt"].encode("utf-8", "surrogatepass"))
        sys.stdout.buffer.flush()


@app.command(
    epilog="Examples:\n\n"
    "  kveval memory /models/Llama-3.1-8B-Instruct\n\n"
    "  kveval memory /models/Llama-3.1-8B-Instruct --memory 80GiB --lengths 4k,32k,128k --formats bf16,fp8,int8\n\n"
    "  kveval memory config.json --memory 80GiB --weights 141GB --tensor-parallel 4 --json\n\n"
    "  kveval memory smollm2 --device cpu --cache 2GiB"
)
def memory(
    model: Annotated[Path, typer.Argument(help="Checkpoint folder, its config.json, or a demo model.")],
    memory: Annotated[
        str | None, typer.Option(help="Memory of one device, such as 80GiB: also show what fits.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="What the weights take, over all devices; default: the checkpoint's files.")
    ] = None,
    utilization: Annotated[float, typer.Option(help="Share of the memory the engine may use.")] = 0.9,
    cache: Annotated[
        str | None, typer.Option(help="Memory of the cache itself, in place of --memory and --weights.")
    ] = None,
    formats: Annotated[str | None, typer.Option(help="Cache formats, such as bf16,fp8,int8.")] = None,
    lengths: Annotated[str | None, typer.Option(help="Context lengths in tokens, such as 4k,32k,128k.")] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens per block; default: vLLM's.")] = None,
    tensor_parallel: Annotated[int, typer.Option(help="Devices that share the model.")] = 1,
    device: Annotated[str, typer.Option(help="gpu or cpu: decides defaults of the engine.")] = "gpu",
    batched_tokens: Annotated[
        int | None, typer.Option(help="The engine's max-num-batched-tokens; default: vLLM's for this memory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Size a model's KV cache per format from its config.json, and what fits on a device. Starts nothing."""
    from kveval.cli import commands
    from kveval.memory.budget import BudgetFlags
    from kveval.memory.estimate import Serving
    from kveval.memory.table import memory_table

    document = commands.size_memory(
        model,
        BudgetFlags(memory, weights, utilization, cache),
        Serving(device, block_size, batched_tokens, tensor_parallel),
        formats=_names(formats),
        lengths=_lengths(lengths),
    )
    print_json(document) if as_json else STDOUT.print(memory_table(document))


@tasks_app.callback(invoke_without_command=True)
def tasks_list(
    context: typer.Context,
    include_path: IncludePath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List tasks."""
    if context.invoked_subcommand is not None:
        return
    from kveval.cli import commands

    rows = commands.list_tasks(include_path)
    print_json(rows) if as_json else STDOUT.print(commands.tasks_table(rows))


@tasks_app.command("show", epilog="Example:\n\n  kveval tasks show niah_single --length 2k --model models/smollm2")
def tasks_show(
    name: Annotated[str, typer.Argument(help="Task name.")],
    length: Annotated[str, typer.Option(help="Context length in tokens.")] = "2k",
    model: Annotated[
        Path | None, typer.Option(help="Checkpoint folder whose tokenizer counts; default: a stand-in tokenizer.")
    ] = None,
    haystack: Annotated[str, typer.Option(help="Filler text: essays, wikipedia or generated.")] = "essays",
    seed: Annotated[int, typer.Option(help="Seed of the haystack.")] = 0,
    include_path: IncludePath = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print prompt and answer as JSON.")] = False,
) -> None:
    """Print one real prompt with its answer."""
    from kveval.cli import commands

    shown = commands.show_task(
        name,
        (_lengths(length, "--length") or [0])[0],
        model=model,
        haystack=haystack,
        seed=seed,
        include_path=include_path,
    )
    if as_json:
        print_json(shown)
        return
    sys.stdout.write(shown.pop("prompt") + "\n\n")
    for key, value in shown.items():
        STDOUT.print(f"{key}: {value}", markup=False, highlight=False, soft_wrap=True)


@data_app.callback(invoke_without_command=True)
def data_list(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List texts and demo models."""
    if context.invoked_subcommand is not None:
        return
    from kveval.cli import data

    holdings = data.inventory()
    print_json(data.as_rows(holdings)) if as_json else STDOUT.print(data.table(holdings), soft_wrap=True)


@data_app.command("fetch", epilog="Examples:\n\n  kveval data fetch\n\n  kveval data fetch long-context smollm2")
def data_fetch(
    names: Annotated[list[str] | None, typer.Argument(help="What to fetch; every text by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was fetched as JSON.")] = False,
) -> None:
    """Fetch texts and demo models once; they are used offline afterwards."""
    from kveval.cli import data

    fetched = data.fetch(names or [], lambda status: STDERR.print(status, markup=False, highlight=False))
    print_json(data.as_rows(fetched)) if as_json else STDOUT.print(data.table(fetched), soft_wrap=True)
