from __future__ import annotations

from pathlib import Path

from support.scripted import Oracle, ScriptedEngines
from support.sweeps import Planner, records, run

from kveval.engines.session import Session
from kveval.engines.variants import ResolvedVariant
from kveval.errors import EngineError
from kveval.measure.stages.stage import Stage


class Notes:
    """Notes when it is called, and how many answers there were."""

    def __init__(self, out: Path) -> None:
        self.out, self.calls = out, []

    def is_missing(self, variant: ResolvedVariant) -> bool:
        return (variant.name, "run") not in {call[:2] for call in self.calls}

    async def started(self, session: Session) -> None:
        self.calls.append((session.variant.name, "started", len(records(self.out, session.variant.name))))

    async def run(self, session: Session) -> None:
        self.calls.append((session.variant.name, "run", len(records(self.out, session.variant.name))))
        raise EngineError("the stage cannot be done")


async def test_a_stage_runs_after_the_samples_of_every_variant_and_costs_none_of_them(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan, stage = plan_of(), Notes(tmp_path / "run")
    given: list[Stage] = [stage]
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)), stages=given)
    assert stage.calls == [("bf16", "started", 0), ("bf16", "run", 6), ("fp8", "started", 0), ("fp8", "run", 6)]
    assert manifest.status == "complete"
