"""What the command line calls: one function per command."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from kveval.config.sweep import SweepConfig, load_config
from kveval.config.task import absolute
from kveval.engines.vllm.installation import NOTHING_TO_LAUNCH, Installation, find_installation
from kveval.errors import (
    ConfigError,
    InfrastructureError,
    InterruptedRunError,
    KvevalError,
    RunDirectoryError,
    UsageError,
    nearest,
)
from kveval.measure.plan.describe import describe
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.progress import BarReporter, LineReporter, Reporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadDocument, read_load
from kveval.run.manifest import Manifest

if TYPE_CHECKING:
    from kveval.memory.budget import BudgetFlags
    from kveval.memory.estimate import Serving

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SweepResult:
    """A finished sweep. `problem`: what kept it from being complete."""

    summary: dict[str, Any]
    table: RenderableType
    report: Path
    problem: KvevalError | None


def _load(source: str, overrides: Mapping[str, Any]) -> SweepConfig:
    config = load_config(source, overrides)
    if config.out is None:
        config = config.model_copy(update={"out": Path("runs") / Path(source).stem})
    return config


def _out(config: SweepConfig) -> Path:
    if config.out is None:
        raise ConfigError("out: required, not given")
    return config.out


def _plan(config: SweepConfig) -> Plan:
    if config.engine.port is not None:
        from kveval.engines.vllm.engine import check_port

        check_port(config.engine.port)
    return make_plan(config, _installation(config))


def _installation(config: SweepConfig) -> Installation:
    return NOTHING_TO_LAUNCH if config.is_attached else find_installation(config.engine)


def plan_sweep(source: str, overrides: Mapping[str, Any], *, resume: bool = False) -> dict[str, Any]:
    """The plan as data; starts nothing. Its notes say so where a sweep could not write its run directory."""
    config = _load(source, overrides)
    plan = _plan(config)
    load = None
    if plan.config.load:
        from kveval.load.plan import describe_load, load_plan_of

        load = describe_load(load_plan_of(plan, plan.config.load))
    described = describe(plan)
    try:
        RunDirectory(_out(config)).check_usable(resume=resume)
    except RunDirectoryError as error:
        described["notes"].append(f"nothing could be measured: {error}")
    return {**described, "load": load}


def plan_table(plan: Mapping[str, Any]) -> RenderableType:
    """`plan_sweep`'s answer for a terminal."""
    head = Table(show_header=False, box=None)
    for key in ("model", "engine", "device", "prompt_style", "max_model_len"):
        head.add_row(key, str(plan[key]))
    launched = plan["engine_launches"] > 0
    title = "variants, one engine launch each" if launched else "variants, each on a server that already runs"
    variants = Table(title=title, title_justify="left")
    for column in ("name", "role", "kv_cache_dtype", "storage", "emulates" if launched else "endpoint", "samples"):
        variants.add_column(column, overflow="fold", justify="right" if column == "samples" else "left")
    for row in plan["variants"]:
        variants.add_row(*(str(row[c.header] if row[str(c.header)] is not None else "") for c in variants.columns))
    cells = Table(title="cells", title_justify="left")
    for column in ("task", "context_length", "samples", "haystacks", "haystack"):
        cells.add_column(column, justify="left" if column in ("task", "haystack") else "right")
    for row in plan["cells"]:
        cells.add_row(*(str(row[str(c.header)]) for c in cells.columns))
    totals = Table(show_header=False, box=None)
    for key in (
        "samples", "haystacks", "prompt_tokens", "prefill_tokens_without_sharing", "prefill_tokens_with_sharing",
        "output_tokens_at_most", "engine_launches", "requests", "of_them_without_prefix_cache",
        "prefill_tokens_without_prefix_cache",
    ):  # fmt: skip
        totals.add_row(key.replace("_", " "), f"{plan[key]:,}")
    estimate = plan["estimate"]
    duration = "unknown" if estimate["seconds"] is None else _minutes(estimate["seconds"])
    totals.add_row("estimate", f"{duration} ({estimate['assumes']})")
    from kveval.report.sections.load.section import load_plan_table

    load = [load_plan_table(plan["load"])] if plan["load"] else []
    return Stack(head, variants, *(Text(note) for note in plan["notes"]), cells, totals, *load)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def run_sweep(
    source: str, overrides: Mapping[str, Any], *, resume: bool, retry_errors: bool, console: Console
) -> SweepResult:
    """Plans, measures, compares and writes the report."""
    config = _load(source, overrides)
    out = _out(config)
    RunDirectory(out).check_usable(resume=resume)
    console.print("planning: reading the model, building prompts", markup=False, highlight=False)
    plan = _plan(config)
    manifest = _interruptible(_measure(plan, out, resume, retry_errors, console), out)
    return _conclude(manifest, out)


async def _measure(plan: Plan, out: Path, resume: bool, retry_errors: bool, console: Console) -> Manifest:
    from kveval.load.run import load_stage

    async def with_reporter(reporter: Reporter) -> Manifest:
        load = load_stage(plan, out, resume=resume, on_status=reporter.status)
        try:
            return await sweep(
                plan, out, resume=resume, retry_errors=retry_errors, reporter=reporter, stages=[load] if load else []
            )
        finally:
            if load:
                load.finish()

    if console.is_terminal:
        with BarReporter(console) as bars:
            return await with_reporter(bars)
    return await with_reporter(LineReporter(console))


def _interruptible(work: Coroutine[Any, Any, T], out: Path) -> T:
    """Runs `work`; the first Ctrl-C or SIGTERM cancels it and lets it clean up, further ones are ignored.

    Raises:
        InterruptedRunError: a signal came.
    """
    received: list[int] = []

    async def run() -> T:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)

        def cancel(number: int) -> None:
            if not received:
                task.cancel()
            received.append(number)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, cancel, number)
        try:
            return await task
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        number = received[0] if received else signal.SIGINT
        raise InterruptedRunError(
            f"interrupted; no process is left running and every answer so far is kept: --resume --out {out} goes on",
            number,
        ) from None


def _conclude(manifest: Manifest, out: Path) -> SweepResult:
    from kveval.report.html.report import build_report
    from kveval.report.terminal.summary import summary, summary_table

    unmeasured = [variant for variant in manifest.variants.values() if variant.status != "complete"]
    problem = None
    if unmeasured:
        which = "; ".join(f"{variant.name} {variant.status}: {variant.reason}" for variant in unmeasured)
        problem = InfrastructureError(f"the run is incomplete: {which}")
    document, table = summary(out), summary_table(out)
    load = read_load(out)
    if load is not None and manifest.config.get("load"):
        from kveval.report.sections.load.section import load_summary, load_table

        document["load"] = load_summary(load)
        table = Stack(table, load_table(load))
        problem = problem or load_problem(load)
    return SweepResult(document, table, build_report(out), problem)


def plan_load(source: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A load measurement's plan as data; starts nothing."""
    from kveval.load.plan import describe_load, make_load_plan

    config = _load(source, overrides)
    return describe_load(make_load_plan(config, _installation(config)))


def measure_load(source: str, overrides: Mapping[str, Any], *, resume: bool, console: Console) -> LoadDocument:
    """Plans and measures into ``load.json``; a report that is there is built again."""
    from kveval.load.plan import make_load_plan
    from kveval.load.run import run_load

    config = _load(source, overrides)
    out = _out(config)
    plan = make_load_plan(config, _installation(config))
    last = ""

    def say(text: str) -> None:
        nonlocal last
        if text != last:
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        last = text

    document = _interruptible(run_load(plan, out, resume=resume, on_status=say), out)
    if RunDirectory(out).exists():
        from kveval.report.html.report import build_report

        say(f"report: {build_report(out)}")
    return document


def load_problem(document: LoadDocument) -> InfrastructureError | None:
    """What kept a load measurement from being complete."""
    left = [variant for variant in document.variants.values() if variant.status != "complete"]
    if not left:
        return None
    which = "; ".join(f"{variant.name} {variant.status}: {variant.reason}" for variant in left)
    return InfrastructureError(f"the load is incomplete: {which}")


def list_tasks(include_path: Path | None) -> list[dict[str, Any]]:
    """Every task kveval ships and those of the folder: name, family, version, description, path of its file."""
    from kveval.tasks.loader import list_tasks as tasks

    return [{**asdict(task), "path": str(task.path)} for task in tasks(include_path and absolute(include_path))]


def tasks_table(rows: list[dict[str, Any]]) -> RenderableType:
    table = Table()
    for column in ("name", "family", "description"):
        table.add_column(column, no_wrap=column == "name")
    for row in rows:
        table.add_row(row["name"], row["family"], row["description"])
    return table


def show_task(
    name: str, context_length: int, *, model: Path | None, haystack: str, seed: int, include_path: Path | None = None
) -> dict[str, Any]:
    """One real prompt of a task with its answer, where it stands and how it is counted."""
    from kveval.models.checkpoint import read_model
    from kveval.tasks.assembly.haystack import build_samples
    from kveval.tasks.assembly.prompt import PromptFormat
    from kveval.tasks.loader import load_tasks
    from kveval.tasks.task import Cell

    styles = ("essays", "wikipedia", "generated")
    if haystack not in styles:
        raise UsageError(f"--haystack: {haystack!r} is not a haystack style; {nearest(haystack, styles)}")
    task = load_tasks([name], include_path and absolute(include_path))[name]
    prompt_format = PromptFormat.load(read_model(model, "--model").path) if model else PromptFormat.stand_in()
    cell = Cell(task.name, context_length, 10, 10, seed, haystack)  # type: ignore[arg-type]
    sample = build_samples(task, cell, prompt_format)[0]
    form = "text"
    if getattr(task.builder, "chat_form", None):
        form += " (a sweep takes the chat endpoint where template and engine allow; --dry-run says which)"
    return {
        "prompt": prompt_format.decode(sample.prompt.token_ids()),
        "form": form,
        "task": task.name,
        "answer": list(sample.doc["answers"]),
        "depth_percent": sample.depth_percent,
        "prompt_tokens": len(sample.prompt),
        "tokenizer": prompt_format.name,
        "sample_id": sample.sample_id,
    }


def size_memory(
    model: Path, flags: BudgetFlags, serving: Serving, *, formats: list[str] | None, lengths: list[int] | None
) -> dict[str, Any]:
    """A model's cache per format and context length, and what fits within `flags`, as data."""
    from kveval.memory.budget import make_budget
    from kveval.memory.estimate import estimate
    from kveval.models.checkpoint import read_model

    found = read_model(model.parent if model.name == "config.json" else model, "MODEL")
    budget = make_budget(found.path, flags, serving.tensor_parallel)
    config_path = str(found.path / "config.json")
    sizes = estimate(
        found.config, config_path, window=found.window, serving=serving, formats=formats, lengths=lengths, budget=budget
    )
    return {"model": str(found.path), **sizes}


def show_sample(run_dir: Path, sample_id: str) -> dict[str, Any]:
    """The full prompt of a sample, and what every variant answered. A unique beginning of the id is enough."""
    from kveval.measure.rebuild import rebuild_prompt

    directory = RunDirectory(run_dir)
    manifest = directory.read_manifest()
    found = [row for row in directory.samples() if row.sample_id.startswith(sample_id)]
    if len(found) != 1:
        what = "is no sample of this run" if not found else f"begins {len(found)} sample ids"
        raise RunDirectoryError(f"{run_dir}: {sample_id!r} {what}; the report and samples.jsonl list them")
    row = found[0]
    asked = rebuild_prompt(manifest, row)
    answers = {
        name: record.model_dump(include={"outcome", "score", "output", "finish_reason", "output_tokens"})
        for name in manifest.variants
        for record in directory.records(name)
        if record.sample_id == row.sample_id
    }
    chat = asked.sample.chat
    return {
        "sample_id": row.sample_id,
        "haystack_id": row.haystack_id,
        "task": row.task,
        "context_length": row.context_length,
        "depth_percent": row.depth_percent,
        "prompt": asked.text,
        "prompt_tokens": len(asked.sample.prompt),
        "prompt_token_ids": [int(token) for token in asked.sample.prompt.token_ids()],
        "prompt_sha256": row.prompt_sha256,
        "messages": None if chat is None else list(chat.messages),
        "tools": None if chat is None else list(chat.tools),
        "doc": row.doc,
        "answers": answers,
    }
