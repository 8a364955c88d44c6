"""Load on the servers of a sweep, and what stops a level."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.loads import OUTPUT_TOKENS, SMALL, Planner, measure, words
from support.scripted import Oracle, Reply, ScriptedEngines, always

from kveval.load.plan import load_plan_of
from kveval.load.stage import LoadStage
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory


async def test_a_dying_server_costs_its_own_variant_only(load_plan: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(always(words()))
    asked = 0

    def dies(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal asked
        asked += 1
        return words(die=asked == 12)

    engines.handlers["bf16"] = dies
    document = await measure(load_plan(), tmp_path / "run", engines)
    assert document.variants["bf16"].status == "stopped"
    assert "the engine stopped" in str(document.variants["bf16"].reason)
    # A level that lost its server is not a measurement of it.
    assert len(document.variants["bf16"].levels) == 1
    assert document.variants["fp8"].status == "complete"
    assert not document.is_complete

    engines.servers["bf16"].handler = always(words())
    resumed = await measure(load_plan(), tmp_path / "run", engines, resume=True)
    assert resumed.is_complete
    assert resumed.variants["bf16"].levels[0] == document.variants["bf16"].levels[0]
    assert engines.launches == ["bf16", "fp8", "bf16"]


async def test_a_level_whose_server_died_is_none_though_its_process_is_there_still(
    load_plan: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.load.stage._DYING_SECONDS", 0.2)
    monkeypatch.setattr("support.scripted.ScriptedEngine.exit_message", lambda _: None)
    engines = ScriptedEngines(always(words()))
    engines.handlers["bf16"] = lambda _prompt, body: words(die=body["max_tokens"] == OUTPUT_TOKENS)
    document = await measure(load_plan(), tmp_path / "run", engines)
    assert document.variants["bf16"].status == "stopped"
    assert "the server no longer answers" in str(document.variants["bf16"].reason)
    assert document.variants["bf16"].levels == []


async def test_a_sweep_loads_its_servers(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    out = tmp_path / "run"
    plan = plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}], load=SMALL, cold_check=0, aa_share=0.5)
    oracle = Oracle(plan)

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        return words() if body.get("ignore_eos") else oracle(prompt, body)

    engines = ScriptedEngines(handler)
    assert plan.config.load is not None
    stage = LoadStage(load_plan_of(plan, plan.config.load), out, resume=False, on_status=lambda *_: None)
    await sweep(plan, out, resume=False, reporter=SilentReporter(), stages=[stage], open_engine=engines)
    document = stage.finish()

    assert engines.launches == ["bf16", "bf16-aa", "fp8", "fp8-control"]
    assert set(document.variants) == {"bf16", "fp8"}
    assert document.is_complete
    assert len(list(RunDirectory(out).records("fp8"))) == len(plan.samples)

    # Load alone is missing: its servers are launched, no sample is asked again.
    records = {name: RunDirectory(out).records_path(name).read_bytes() for name in ("bf16", "fp8")}
    (out / "load.json").unlink()
    stage = LoadStage(load_plan_of(plan, plan.config.load), out, resume=True, on_status=lambda *_: None)
    engines.fail_to_start["fp8"] = (2, "fp8: no")
    manifest = await sweep(plan, out, resume=True, reporter=SilentReporter(), stages=[stage], open_engine=engines)
    document = stage.finish()
    assert engines.launches[4:] == ["bf16", "fp8"]
    assert document.variants["bf16"].status == "complete"
    assert document.variants["fp8"].levels == []
    assert manifest.variants["fp8"].status == "complete"
    assert {name: RunDirectory(out).records_path(name).read_bytes() for name in records} == records
