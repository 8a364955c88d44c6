"""Measures accuracy: from a configuration to a run directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.api.prediction import clustering_of, predict_plan
from kveval.api.source import ConfigSource, engine_for, incomplete, read_config, run_folder, untrusted
from kveval.config.sweep import SweepConfig
from kveval.engines.process import check_port
from kveval.errors import InfrastructureError, RunDirectoryError
from kveval.judge.looks.interim import findings_at_look
from kveval.judge.prediction.prediction import write_prediction
from kveval.judge.run_data import load_run
from kveval.judge.trust.earlier import EarlierAnswers
from kveval.load.plan import describe_load, load_plan_of
from kveval.load.run import load_stage
from kveval.measure.interrupt import run_interruptible
from kveval.measure.plan.describe import describe
from kveval.measure.plan.growth import EarlierPlan, growth_notes
from kveval.measure.plan.manifest import manifest_of
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.progress import BarReporter, LineReporter, Reporter, SilentReporter
from kveval.measure.sweep import sweep as ask_variants
from kveval.report.documents.load import load_summary
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadDocument, read_load
from kveval.run.manifest import Manifest
from kveval.terminal import Terminal


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep measured.

    Attributes:
        path: the run directory. `kveval.load_run` opens it, `kveval.gate` judges it.
        report: the HTML report.
        summary: scores, differences and verdicts as data for JSON.
        load: speed under load. None if the configuration has no `load`.
        problem: why the run is incomplete or cannot be judged. None if every variant is complete and can be judged.
    """

    path: Path
    report: Path
    summary: dict[str, Any]
    load: LoadDocument | None
    problem: InfrastructureError | None


def sweep(
    config: ConfigSource | None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    retry_errors: bool = False,
    progress: bool = True,
    **overrides: Any,
) -> SweepResult:
    """Asks every variant the same questions, compares the answers, and writes the report: ``kveval sweep``.

    Args:
        config: a `SweepConfig`, a mapping of its keys, a YAML file, or the name of a preset. None takes that of the run
            which is resumed.
        out: the run directory. A file or preset goes to ``runs/NAME-TIME`` by default,
            and goes on with the newest of them.
        resume: go on with the run in `out`, and ask only what is missing. More ``samples`` than the run has are added
            to those it has.
        retry_errors: when resuming, ask again what ended as ``engine_error`` or could not be forced.
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
    chosen = read_config(config, out, overrides, resume=resume)
    path = run_folder(chosen)
    RunDirectory(path).check_usable(resume=resume)
    console = Terminal(stderr=True, quiet=not progress)
    console.say("planning: reading the model, building prompts")
    plan = _plan(chosen, EarlierPlan.of(RunDirectory(path)))
    prediction = predict_plan(plan, path)
    for warning in prediction.warnings:
        console.say(f"warning: {warning}")
    manifest = run_interruptible(_ask(plan, path, resume, retry_errors, console), path)
    write_prediction(path, prediction)
    document = summary(path)
    problem = incomplete("run", manifest.variants) or untrusted(document["problems"])
    load = read_load(path) if manifest.config.get("load") else None
    if load is not None:
        document["load"] = load_summary(load)
        problem = problem or incomplete("load", load.variants)
    return SweepResult(path, build_report(path), document, load, problem)


def plan_sweep(
    config: ConfigSource | None, *, out: str | Path | None = None, resume: bool = False, **overrides: Any
) -> dict[str, Any]:
    """Says what a sweep would do, and starts nothing: ``kveval sweep --dry-run --json``.

    Args:
        config, out, resume, **overrides: as `sweep` takes them.

    Returns:
        Variants, cells, samples, tokens, launches, what the plan can show, and an estimate of the time, as data for
        JSON.

    Raises:
        UsageError: the configuration or the model cannot be used.
        ResumeError: the run in `out` was made with other inputs.

    Example:
        >>> plan = kveval.plan_sweep("nightly.yaml", variants=["bf16", "fp8", "int8"])
        >>> plan["engine_launches"]
        3
    """
    chosen = read_config(config, out, overrides, resume=resume)
    earlier = EarlierPlan.of(RunDirectory(chosen.out)) if resume and chosen.out is not None else None
    plan = _plan(chosen, earlier)
    described = {**describe(plan), "prediction": predict_plan(plan, chosen.out).model_dump(mode="json")}
    if earlier is not None and len(plan.growth) > len(earlier.manifest.growth):
        described["notes"] += growth_notes(plan.growth[-1], plan.tasks)
    if chosen.out is not None:
        run = RunDirectory(chosen.out)
        if resume and run.exists():
            manifest_of(run, plan)
        try:
            run.check_usable(resume=resume)
        except RunDirectoryError as error:
            described["notes"].append(f"nothing could be measured: {error}")
    load = plan.config.load
    return {**described, "load": describe_load(load_plan_of(plan, load)) if load else None}


def _plan(config: SweepConfig, earlier: EarlierPlan | None) -> Plan:
    if config.engine.port is not None:
        check_port(config.engine.port)
    return make_plan(config, engine_for(config), earlier, clustering_of(config))


async def _ask(plan: Plan, out: Path, resume: bool, retry_errors: bool, console: Terminal) -> Manifest:
    async def ask(reporter: Reporter) -> Manifest:
        load = load_stage(plan, out, resume=resume, on_status=reporter.status)
        try:
            return await ask_variants(
                plan,
                out,
                resume=resume,
                retry_errors=retry_errors,
                reporter=reporter,
                stages=[load] if load else [],
                confirm=EarlierAnswers(),
                judge=lambda variant: findings_at_look(load_run(out), variant),
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
