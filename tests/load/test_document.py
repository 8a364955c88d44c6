"""The document of a load measurement: made new, or read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.loads import Planner, measure, words
from support.scripted import Oracle, ScriptedEngines, always

from kveval.errors import ResumeError, RunDirectoryError
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep


async def test_resume_measures_only_what_is_missing(load_plan: Planner, tmp_path: Path) -> None:
    out = tmp_path / "run"
    engines = ScriptedEngines(always(words()))
    first = await measure(load_plan(), out, engines)
    with pytest.raises(RunDirectoryError, match=r"holds load.json already; use: another folder, or --resume"):
        await measure(load_plan(), out, engines)
    assert await measure(load_plan(), out, engines, resume=True) == first
    assert engines.launches == ["bf16", "fp8"]

    more = await measure(load_plan({"concurrency": [1, 3, 4]}), out, engines, resume=True)
    assert engines.launches == ["bf16", "fp8"] * 2
    for name, variant in more.variants.items():
        kept = len(first.variants[name].levels)
        assert variant.levels[:kept] == first.variants[name].levels
        assert [result.level.concurrency for result in variant.levels[kept:]] == [4, 4, 4]


async def test_resume_with_another_engine_is_refused(load_plan: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(always(words()))
    await measure(load_plan(), tmp_path / "run", engines)
    other = load_plan(engine={"args": {"max-num-seqs": 2}})
    with pytest.raises(
        ResumeError, match=r"engine_args of bf16 was \{\} in load.json and is \{'max-num-seqs': 2\} now"
    ):
        await measure(other, tmp_path / "run", engines, resume=True)


async def test_a_run_directory_of_another_model_is_refused(
    load_plan: Planner, plan_of: Callable[..., Plan], checkpoint: Path, tmp_path: Path
) -> None:
    plan = plan_of(variants=["bf16"], cold_check=0)
    engines = ScriptedEngines(Oracle(plan))
    await sweep(plan, tmp_path / "run", resume=False, reporter=SilentReporter(), open_engine=engines)
    (checkpoint / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(RunDirectoryError, match=r"of a model with another model/model.safetensors"):
        await measure(load_plan(), tmp_path / "run", engines)
