"""The command that measures speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kveval.cli.console import STDERR, STDOUT, print_json
from kveval.errors import UsageError

load_app = typer.Typer()


@load_app.command(
    epilog="Examples:\n\n"
    "  kveval load nightly.yaml --dry-run\n\n"
    "  kveval load nightly.yaml --concurrency 1,8,32 --lengths 1k,16k --out runs/tonight\n\n"
    "  kveval load nightly.yaml --concurrency '' --rates 0.5,2 --variants bf16,fp8\n\n"
    "  kveval load nightly.yaml --out runs/tonight --resume"
)
def load(
    config: Annotated[str, typer.Argument(help="A sweep's YAML file or preset; its key 'load' says what is measured.")],
    model: Annotated[Path | None, typer.Option(help="Folder with a Hugging Face checkpoint.")] = None,
    variants: Annotated[str | None, typer.Option(help="Cache settings, such as bf16,fp8,int8.")] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests in flight (closed loop), such as 1,8; '' for none.")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help="Requests per second that arrive at random (open loop), such as 0.5,2.")
    ] = None,
    lengths: Annotated[str | None, typer.Option(help="Prompt lengths in tokens, such as 1k,4k (k = 1024).")] = None,
    output_tokens: Annotated[str | None, typer.Option(metavar="INTEGER", help="Of every request, exactly.")] = None,
    requests: Annotated[str | None, typer.Option(metavar="INTEGER", help="Per level, counted.")] = None,
    warmup_requests: Annotated[
        str | None, typer.Option(metavar="INTEGER", help="Before each level, not counted.")
    ] = None,
    mixed: Annotated[bool | None, typer.Option(help="Also measure prompts of mixed lengths.")] = None,
    longest_context: Annotated[
        bool | None, typer.Option(help="Also send one request as long as the server takes.")
    ] = None,
    aa: Annotated[bool | None, typer.Option("--aa/--no-aa", help="Measure the baseline a second time.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="INTEGER", help="Of prompts and arrivals.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory, a sweep's or a new one; default runs/CONFIG.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with load.json in --out: measure what is missing.")
    ] = False,
    accept_finding: Annotated[
        list[str] | None, typer.Option(help="Measure a variant in spite of this error finding; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and start nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan or the result as JSON.")] = False,
) -> None:
    """Measure speed under load, per cache setting: latency, throughput, queueing, cache use, memory."""
    from kveval.cli import commands
    from kveval.report.sections.load.section import load_plan_table, load_summary, load_table

    of_load: dict[str, Any] = {
        "concurrency": _listed(concurrency),
        "request_rates": _listed(rates),
        "prompt_lengths": _listed(lengths),
        "output_tokens": output_tokens,
        "requests": requests,
        "warmup_requests": warmup_requests,
        "mixed": mixed,
        "longest_context": longest_context,
        "aa": aa,
    }
    overrides: dict[str, Any] = {
        "model": model,
        "variants": _listed(variants),
        "load": {key: value for key, value in of_load.items() if value is not None},
        "seed": seed,
        "out": out,
        "accept_findings": accept_finding or None,
    }
    given = {key: value for key, value in overrides.items() if value is not None}
    if dry_run and resume:
        raise UsageError("--resume: goes on with a measurement; allowed: without --dry-run")
    if dry_run:
        plan = commands.plan_load(config, given)
        print_json(plan) if as_json else STDOUT.print(load_plan_table(plan))
        return
    document = commands.measure_load(config, given, resume=resume, console=STDERR)
    print_json(load_summary(document)) if as_json else STDOUT.print(load_table(document))
    problem = commands.load_problem(document)
    if problem is not None:
        raise problem


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
