"""The command that measures speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import kveval
from kveval.cli.console import STDERR, STDOUT, print_json
from kveval.cli.options import AcceptFinding, AsJson, DryRun, Model, Variants, given, names
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
    config: Annotated[
        str, typer.Argument(help="A YAML file or a preset of a sweep. Its key 'load' says what is measured.")
    ],
    model: Model = None,
    variants: Variants = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests in flight (closed loop), such as 1,8. '' measures none.")
    ] = None,
    rates: Annotated[
        str | None, typer.Option(help="Requests per second that arrive at random (open loop), such as 0.5,2.")
    ] = None,
    prompt_lengths: Annotated[
        str | None, typer.Option("--lengths", help="Prompt lengths in tokens, such as 1k,4k (k = 1024).")
    ] = None,
    output_tokens: Annotated[str | None, typer.Option(metavar="INTEGER", help="Output tokens per request.")] = None,
    requests: Annotated[str | None, typer.Option(metavar="INTEGER", help="Requests per level that count.")] = None,
    warmup_requests: Annotated[
        str | None, typer.Option(metavar="INTEGER", help="Requests before each level that do not count.")
    ] = None,
    mixed: Annotated[bool | None, typer.Option(help="Also measure prompts of mixed lengths.")] = None,
    longest_context: Annotated[
        bool | None, typer.Option(help="Also send one request as long as the server takes.")
    ] = None,
    aa: Annotated[bool | None, typer.Option("--aa/--no-aa", help="Measure the baseline a second time.")] = None,
    seed: Annotated[str | None, typer.Option(metavar="INTEGER", help="Seed of prompts and arrivals.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run directory, of a sweep or a new one. Default: runs/CONFIG-TIME; with --resume, the newest."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with load.json in --out, and measure only what is missing.")
    ] = False,
    accept_finding: AcceptFinding = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Measure speed under load, per cache setting: latency, throughput, queueing, cache use, memory.

    A flag replaces the key of the configuration; without it, the configuration decides.
    """
    from kveval.report.terminal.load import load_plan_table, load_table

    if dry_run and resume:
        raise UsageError("--resume: goes on with a measurement; use it without --dry-run")
    of_load = given(
        concurrency=names(concurrency),
        request_rates=names(rates),
        prompt_lengths=names(prompt_lengths),
        output_tokens=output_tokens,
        requests=requests,
        warmup_requests=warmup_requests,
        mixed=mixed,
        longest_context=longest_context,
        aa=aa,
    )
    flags = given(
        model=model,
        variants=names(variants),
        load=of_load,
        seed=seed,
        accept_findings=accept_finding,
    )
    if dry_run:
        plan = kveval.plan_load(config, out=out, **flags)
        print_json(plan) if as_json else STDOUT.print(load_plan_table(plan))
        return
    result = kveval.measure_load(config, out=out, resume=resume, **flags)
    if result.report:
        STDERR.say(f"report: {result.report}")
    print_json(result.summary) if as_json else STDOUT.print(load_table(result.document))
    if result.problem:
        raise result.problem
