"""Measures accuracy and speed: from a configuration to a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from kveval.config.read import load_config
from kveval.config.sweep import SweepConfig, validate_config
from kveval.engines.installation import NOTHING_TO_LAUNCH, Installation
from kveval.engines.ports import check_port
from kveval.engines.registry import find_installation
from kveval.errors import ConfigError, InfrastructureError, RunDirectoryError
from kveval.load.plan import describe_load, load_plan_of, make_load_plan
from kveval.load.run import load_stage, run_load
from kveval.measure.interrupt import run_interruptible
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.progress import BarReporter, LineReporter, Reporter, SilentReporter
from kveval.measure.sweep import sweep as ask_variants
from kveval.report.documents.load import load_summary
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadDocument, LoadVariant, read_load
from kveval.run.manifest import Manifest, VariantRun

ConfigSource = SweepConfig | Mapping[str, Any] | str | Path
"""A configuration, its keys and values, a YAML file, or the name of a preset such as ``demo``."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep measured.

    Attributes:
        path: the run directory. `kveval.load_run` opens it, `kveval.gate` judges it.
        report: the HTML report.
        summary: scores, differences and verdicts as data for JSON.
        load: speed under load. None if the configuration has no `load`.
        problem: why the run is incomplete. None if every variant answered every sample.
    """

    path: Path
    report: Path
    summary: dict[str, Any]
    load: LoadDocument | None
    problem: InfrastructureError | None


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


def sweep(
    config: ConfigSource,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    retry_errors: bool = False,
    progress: bool = True,
    **overrides: Any,
) -> SweepResult:
    """Asks every variant the same questions, compares the answers, and writes the report: ``kveval sweep``.

    Args:
        config: a `SweepConfig`, a mapping of its keys, a YAML file, or the name of a preset.
        out: the run directory. A file or preset goes to ``runs/NAME`` by default.
        resume: go on with the run in `out`, and ask only what is missing.
        retry_errors: when resuming, ask again what ended as ``engine_error``.
        progress: print progress on standard error.
        **overrides: keys of the configuration, such as ``samples=50`` or ``variants=["bf16", "fp8"]``.

    Returns:
        Where the run and its report are, and a summary. A variant that fails is told in `SweepResult.problem`; the
        others are still measured.

    Raises:
        UsageError: the configuration, the model or the folder cannot be used. Nothing was started.
        InfrastructureError: the baseline could not be started, or does something other than it was asked to.
        InterruptedRunError: Ctrl-C or SIGTERM. ``resume=True`` goes on.

    Example:
        >>> result = kveval.sweep("demo", out="runs/first", samples=10)
        >>> result.problem is None
        True
        >>> run = kveval.load_run(result.path)
    """
    chosen = _read(config, out, overrides)
    path = _out(chosen)
    RunDirectory(path).check_usable(resume=resume)
    console = Console(stderr=True, quiet=not progress)
    console.print("planning: reading the model, building prompts", markup=False, highlight=False)
    plan = _plan(chosen)
    manifest = run_interruptible(_ask(plan, path, resume, retry_errors, console), path)
    problem = _problem("run", manifest.variants)
    document = summary(path)
    load = read_load(path) if manifest.config.get("load") else None
    if load is not None:
        document["load"] = load_summary(load)
        problem = problem or _problem("load", load.variants)
    return SweepResult(path, build_report(path), document, load, problem)


def plan_sweep(
    config: ConfigSource, *, out: str | Path | None = None, resume: bool = False, **overrides: Any
) -> dict[str, Any]:
    """Says what a sweep would do, and starts nothing: ``kveval sweep --dry-run --json``.

    Args:
        config, out, resume, **overrides: as `sweep` takes them.

    Returns:
        Variants, cells, samples, tokens, launches and an estimate of the time, as data for JSON.

    Raises:
        UsageError: the configuration or the model cannot be used.

    Example:
        >>> plan = kveval.plan_sweep("nightly.yaml", variants=["bf16", "fp8", "int8"])
        >>> plan["engine_launches"]
        3
    """
    chosen = _read(config, out, overrides)
    plan = _plan(chosen)
    described = describe(plan)
    if chosen.out is not None:
        try:
            RunDirectory(chosen.out).check_usable(resume=resume)
        except RunDirectoryError as error:
            described["notes"].append(f"nothing could be measured: {error}")
    load = plan.config.load
    return {**described, "load": describe_load(load_plan_of(plan, load)) if load else None}


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
    chosen = _read(config, out, overrides)
    path = _out(chosen)
    plan = make_load_plan(chosen, _installation(chosen))
    say = _changes_of_status(Console(stderr=True, quiet=not progress))
    document = run_interruptible(run_load(plan, path, resume=resume, on_status=say), path)
    report = build_report(path) if RunDirectory(path).exists() else None
    return LoadResult(document, load_summary(document), report, _problem("load", document.variants))


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
    chosen = _read(config, out, overrides)
    return describe_load(make_load_plan(chosen, _installation(chosen)))


def _read(config: ConfigSource, out: str | Path | None, overrides: Mapping[str, Any]) -> SweepConfig:
    changes = {**overrides} if out is None else {**overrides, "out": Path(out)}
    if isinstance(config, str | Path):
        read = load_config(str(config), changes)
        return read if read.out else read.model_copy(update={"out": Path("runs") / Path(config).stem})
    keys = config.model_dump(exclude_unset=True) if isinstance(config, SweepConfig) else config
    return validate_config({**keys, **changes})


def _out(config: SweepConfig) -> Path:
    if config.out is None:
        raise ConfigError("out: required, not given; use a folder for the run, such as runs/tonight")
    return config.out


def _plan(config: SweepConfig) -> Plan:
    if config.engine.port is not None:
        check_port(config.engine.port)
    return make_plan(config, _installation(config))


def _installation(config: SweepConfig) -> Installation:
    return NOTHING_TO_LAUNCH if config.is_attached else find_installation(config.engine)


async def _ask(plan: Plan, out: Path, resume: bool, retry_errors: bool, console: Console) -> Manifest:
    async def ask(reporter: Reporter) -> Manifest:
        load = load_stage(plan, out, resume=resume, on_status=reporter.status)
        try:
            return await ask_variants(
                plan, out, resume=resume, retry_errors=retry_errors, reporter=reporter, stages=[load] if load else []
            )
        finally:
            if load:
                load.finish()

    if console.quiet:
        return await ask(SilentReporter())
    if console.is_terminal:
        with BarReporter(console) as bars:
            return await ask(bars)
    return await ask(LineReporter(console))


def _changes_of_status(console: Console) -> Callable[[str], None]:
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if text != last:
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        last = text

    return say


def _problem(what: str, variants: Mapping[str, VariantRun] | Mapping[str, LoadVariant]) -> InfrastructureError | None:
    unmeasured = [variant for variant in variants.values() if variant.status != "complete"]
    if not unmeasured:
        return None
    which = "; ".join(f"{variant.name} {variant.status}: {variant.reason}" for variant in unmeasured)
    return InfrastructureError(f"the {what} is incomplete: {which}")
