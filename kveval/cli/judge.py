"""The commands that judge a run directory: no engine, no GPU."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kveval.cli.console import STDOUT, print_json
from kveval.cli.policy_flags import policy_flags
from kveval.cli.start.completion import complete_run

judge_app = typer.Typer()

_NEXT = {
    "pass": "kveval recommend {run}",
    "regression": "open {run}/report.html, which shows the lost answers",
    "infrastructure": "kveval sweep --resume --retry-errors --out {run}",
    "undecided": "kveval recommend {run}, which says what would decide it",
}

PolicyConfig = Annotated[
    str | None, typer.Option(help="Take the policy from this sweep configuration, not from the run's own.")
]


@judge_app.command(
    epilog="Examples:\n\n"
    "  kveval gate runs/tonight\n\n"
    "  kveval gate runs/tonight --against baselines/llama-8b.json\n\n"
    "  kveval gate runs/tonight --margin 0.02 --margins needle=0.01,code=0.05 --undecided allow\n\n"
    "  kveval gate runs/tonight --out ci --json\n\n"
    "Exit codes: 0 pass, 1 regression, 2 usage, 3 infrastructure, 4 incomparable, 5 undecided and the policy"
    " blocks on it, 70 kveval itself failed."
)
@policy_flags()
def gate(
    run: Annotated[Path, typer.Argument(help="A run directory.", autocompletion=complete_run)],
    against: Annotated[
        Path | None, typer.Option(help="A blessed file: also compare every variant with itself in that run.")
    ] = None,
    *,
    policy: Mapping[str, Any],
    config: PolicyConfig = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for junit.xml, summary.md and verdict.json; default RUN.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print verdict.json instead of the table.")] = False,
) -> None:
    """Decide by policy whether a run passes: against its own baseline, and against a blessed run."""
    from kveval.report.files.gate import decide
    from kveval.report.terminal.gate import gate_table

    decision = decide(run, against=against, config=config, overrides=policy, out=out)
    if as_json:
        print_json(decision.document)
    else:
        STDOUT.print(gate_table(decision.gate))
        STDOUT.say(f"written: {decision.folder}/verdict.json, summary.md, junit.xml")
        STDOUT.say(f"next: {_NEXT[decision.gate.state].format(run=shlex.quote(str(run)))}")
    raise typer.Exit(decision.gate.exit_code)


@judge_app.command(
    epilog="Examples:\n\n"
    "  kveval recommend runs/tonight\n\n"
    "  kveval recommend runs/tonight --sequences 32\n\n"
    "  kveval recommend runs/tonight --margin 0.01 --json\n\n"
    "Exit codes: 0 a candidate is recommended; else stay with the baseline: 1 every candidate loses, 2 usage, "
    "3 infrastructure, 5 undecided, or nothing that passes saves memory here, 70 kveval itself failed."
)
@policy_flags(without={"undecided"})
def recommend(
    run: Annotated[Path, typer.Argument(help="A run directory.", autocompletion=complete_run)],
    *,
    policy: Mapping[str, Any],
    config: PolicyConfig = None,
    sequences: Annotated[
        int | None,
        typer.Option(help="Also show the context limit at this many concurrent requests, without a shared prefix."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the recommendation as JSON.")] = False,
) -> None:
    """Print the serving flags of the setting that passes and frees most memory, and those to go back to."""
    from kveval.judge.recommend.recommend import recommend as recommend_setting
    from kveval.report.documents.recommendation import recommendation_document
    from kveval.report.files.gate import policy_given
    from kveval.report.terminal.recommendation import recommendation_table

    advice = recommend_setting(run, overrides=policy_given(config, policy), sequences=sequences)
    if as_json:
        print_json(recommendation_document(advice))
    else:
        STDOUT.print(recommendation_table(advice), crop=False)
    raise typer.Exit(advice.exit_code)


@judge_app.command(epilog="Example:\n\n  kveval bless runs/release-1.4 --out baselines/llama-8b.json")
def bless(
    run: Annotated[Path, typer.Argument(help="A run directory.", autocompletion=complete_run)],
    out: Annotated[Path, typer.Option(help="The file to write, made to be committed.")],
) -> None:
    """Write the answers of a run to a small file that later runs are held against."""
    from kveval.report.files.gate import bless_run

    judged = bless_run(run, out)
    STDOUT.say(f"blessed: {out} (the gate calls this run: {judged.state})")


@judge_app.command(
    epilog="Examples:\n\n"
    "  kveval diff runs/monday runs/tuesday\n\n"
    "  kveval diff runs/tonight:bf16 runs/tonight:fp8\n\n"
    "  kveval diff baselines/llama-8b.json runs/tonight"
)
def diff(
    first: Annotated[str, typer.Argument(help="RUN, RUN:VARIANT or a blessed file.")],
    second: Annotated[str, typer.Argument(help="What is compared with it.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare two runs, or two variants, sample by sample."""
    from kveval.report.documents.diff import compare, diff_document
    from kveval.report.terminal.diff import diff_table

    compared = compare(first, second)
    print_json(diff_document(compared)) if as_json else STDOUT.print(diff_table(compared))
