"""Measures speed under load: one launch per variant, every level on it."""

from __future__ import annotations

from pathlib import Path

from kveval.engines.base import OnStatus, OpenEngine
from kveval.engines.registry import open_engine
from kveval.engines.session import open_session
from kveval.engines.variants import ResolvedVariant
from kveval.errors import EngineError, FactsError
from kveval.load.plan import LoadPlan, load_plan_of
from kveval.load.stage import LoadStage
from kveval.measure.plan.plan import Plan
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadDocument


async def run_load(
    plan: LoadPlan, out: Path, *, resume: bool, on_status: OnStatus, open_engine: OpenEngine = open_engine
) -> LoadDocument:
    """Measures `plan` into ``load.json`` of the run directory `out`. A server that fails costs only its variant.

    Raises:
        RunDirectoryError: `out` holds other load results, or another sweep writes there.
        ResumeError: they were made with other inputs.
    """
    run = RunDirectory(out)
    with run.locked():
        stage = LoadStage(plan, out, resume=resume, on_status=lambda name, text: on_status(f"{name}: {text}"))
        try:
            for variant in plan.variants:
                if stage.is_missing(variant):
                    log_path = run.engine_log_path(variant.name)
                    await _measure(plan, variant, log_path, stage, on_status, open_engine)
        finally:
            document = stage.finish()
        return document


async def _measure(
    plan: LoadPlan,
    variant: ResolvedVariant,
    log_path: Path,
    stage: LoadStage,
    on_status: OnStatus,
    open_engine: OpenEngine,
) -> None:
    def say(text: str) -> None:
        on_status(f"{variant.name}: {text}")

    try:
        async with open_session(plan, variant, log_path, open_engine=open_engine, on_status=say) as session:
            await stage.started(session)
            say("asking smoke questions")
            await stage.establish(session)
            await stage.run(session)
    except (FactsError, EngineError) as error:
        stage.end(variant, "refused" if isinstance(error, FactsError) else "failed", str(error))
        say(f"not measured: {error}")


def load_stage(plan: Plan, out: Path, *, resume: bool, on_status: OnStatus) -> LoadStage | None:
    """Returns the load part of a sweep, or None if the configuration asks for none. Raises as `LoadStage` does."""
    if plan.config.load is None:
        return None
    # A sweep's status names the variant itself.
    return LoadStage(
        load_plan_of(plan, plan.config.load), out, resume=resume, on_status=lambda _, text: on_status(text)
    )
