"""The command that measures accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kveval
from kveval.cli.console import STDOUT, print_json
from kveval.cli.options import AcceptFinding, AsJson, DryRun, IncludePath, Model, Variants, given, lengths, names
from kveval.cli.start.completion import complete_config, complete_tasks
from kveval.errors import UsageError
from kveval.resources import presets

measure_app = typer.Typer()


@measure_app.command(
    epilog="Examples:\n\n"
    "  kveval sweep demo\n\n"
    "  kveval sweep gpu --model /models/Llama-3.1-8B-Instruct\n\n"
    "  kveval sweep nightly.yaml --out runs/tonight\n\n"
    "  kveval sweep nightly.yaml --variants bf16,fp8 --lengths 16k,64k --tasks niah_multikey --dry-run\n\n"
    "  kveval sweep --resume --out runs/tonight\n\n"
    "  kveval sweep --resume --out runs/tonight --samples 400"
)
def sweep(
    config: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_config,
            help=f"A YAML file, or a preset: {', '.join(presets())}. Not needed to go on with --resume --out.",
        ),
    ] = None,
    model: Model = None,
    variants: Variants = None,
    context_lengths: Annotated[
        str | None,
        typer.Option(
            "--lengths",
            help="Context lengths in tokens, such as 4k,16k (k = 1024). Default: 4k, 16k, 64k, up to the window.",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete_tasks,
            help="Task names ('kveval tasks' lists them), lm_eval:NAME, or prompts.jsonl.",
        ),
    ] = None,
    include_path: IncludePath = None,
    samples: Annotated[str | None, typer.Option(metavar="INTEGER", help="Samples per task and context length.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="INTEGER", help="Seed of all samples.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory. Default: runs/CONFIG-TIME; with --resume, the newest.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run in --out, and ask only what is missing. A larger --samples adds to it.",
        ),
    ] = False,
    retry_errors: Annotated[
        bool,
        typer.Option(
            "--retry-errors", help="With --resume: ask again what ended as engine_error or could not be forced."
        ),
    ] = False,
    baseline_from: Annotated[
        Path | None,
        typer.Option(
            help="An earlier run, or a folder of runs. A variant of which nothing changed takes its answers, once a "
            "share of them is asked again and agrees."
        ),
    ] = None,
    accept_finding: AcceptFinding = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Ask every cache setting the same long-context questions and compare the answers.

    A flag replaces the key of the configuration; without it, the configuration decides.
    """
    from kveval.report.terminal.load import load_table
    from kveval.report.terminal.plan import plan_table
    from kveval.report.terminal.summary import summary_table

    if retry_errors and not resume:
        raise UsageError("--retry-errors: goes on with a run that exists; use it together with --resume")
    flags = given(
        model=model,
        variants=names(variants),
        context_lengths=lengths(context_lengths),
        tasks=names(tasks),
        include_path=include_path,
        samples=samples,
        seed=seed,
        baseline_from=baseline_from,
        accept_findings=accept_finding,
    )
    if dry_run:
        plan = kveval.plan_sweep(config, out=out, resume=resume, **flags)
        print_json(plan) if as_json else STDOUT.print(plan_table(plan))
        return
    result = kveval.sweep(config, out=out, resume=resume, retry_errors=retry_errors, **flags)
    if as_json:
        print_json(result.summary)
    else:
        STDOUT.print(summary_table(result.path))
        if result.load:
            STDOUT.print(load_table(result.load))
        STDOUT.say(f"report: {result.report}")
    if result.problem:
        raise result.problem
