from __future__ import annotations

from pathlib import Path

from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Nth, Planner, run


async def test_server_time_adds_up_over_launches(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = Nth(oracle, Reply(die=True), at=3)

    manifest = await run(plan, tmp_path / "run", engines)
    seconds = {name: one.server_seconds for name, one in manifest.variants.items()}
    assert manifest.variants["fp8"].launches == 2
    assert all(spent >= manifest.variants[name].asking_seconds > 0 for name, spent in seconds.items())
