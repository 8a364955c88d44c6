"""Measures speed under load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.api.source import ConfigSource, engine_for, incomplete, read_config, run_folder
from kveval.errors import InfrastructureError
from kveval.load.plan import describe_load, make_load_plan
from kveval.load.run import run_load
from kveval.measure.interrupt import run_interruptible
from kveval.report.documents.load import load_summary
from kveval.report.html.report import build_report
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadDocument
from kveval.terminal import Terminal


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load measurement measured.

    Attributes:
        document: the content of ``load.json``.
        summary: its figures as data for JSON.
        report: the HTML report, built again. None if the folder holds no sweep.
        problem: why the measurement is incomplete. None if every variant went through every level.
    """

    document: LoadDocument
    summary: dict[str, Any]
    report: Path | None
    problem: InfrastructureError | None


def measure_load(
    config: ConfigSource,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **overrides: Any,
) -> LoadResult:
    """Measures speed under load for every variant, and writes ``load.json``: ``kveval load``.

    Args:
        config, out, resume, progress, **overrides: as `sweep` takes them. The key `load` says what is measured.

    Returns:
        Latency, throughput and memory of every variant at every level. A variant that fails is told in
        `LoadResult.problem`; the others are still measured.

    Raises:
        UsageError: the configuration, the model or the folder cannot be used. Nothing was started.
        InterruptedRunError: Ctrl-C or SIGTERM. ``resume=True`` goes on.

    Example:
        >>> result = kveval.measure_load("nightly.yaml", out="runs/first", load={"concurrency": [8], "requests": 16})
        >>> {row["variant"] for row in result.summary["rows"]} == {"bf16", "fp8"}
        True
    """
    chosen = read_config(config, out, overrides, resume=resume)
    path = run_folder(chosen)
    plan = make_load_plan(chosen, engine_for(chosen))
    say = _changes_of_status(Terminal(stderr=True, quiet=not progress))
    document = run_interruptible(run_load(plan, path, resume=resume, on_status=say), path)
    report = build_report(path) if RunDirectory(path).exists() else None
    return LoadResult(document, load_summary(document), report, incomplete("load", document.variants))


def plan_load(config: ConfigSource, *, out: str | Path | None = None, **overrides: Any) -> dict[str, Any]:
    """Says what `measure_load` would do, and starts nothing: ``kveval load --dry-run --json``.

    Args:
        config, out, **overrides: as `sweep` takes them.

    Returns:
        Levels, requests, tokens and launches, as data for JSON.

    Raises:
        UsageError: the configuration or the model cannot be used.

    Example:
        >>> levels = {"concurrency": [1, 8], "prompt_lengths": [64], "longest_context": False}
        >>> [level["level"] for level in kveval.plan_load("nightly.yaml", load=levels)["levels"]]
        ['closed 1, 64 tokens', 'closed 8, 64 tokens']
    """
    chosen = read_config(config, out, overrides)
    return describe_load(make_load_plan(chosen, engine_for(chosen)))


def _changes_of_status(console: Terminal) -> Callable[[str], None]:
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if text != last:
            console.say(text)
        last = text

    return say
