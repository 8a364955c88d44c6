"""Which variants a sweep refuses to measure, and how they are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines, always
from support.sweeps import Planner, outcomes, records, run

from kveval.errors import FactsError
from kveval.run.directory import RunDirectory


async def test_a_silent_candidate_is_refused_by_the_smoke_questions(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    engines = ScriptedEngines(Oracle(plan))
    engines.handlers["fp8"] = always(Reply(""))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "incomplete"
    assert manifest.variants["fp8"].status == "refused"
    assert "the answer is empty (smoke_failed; to measure it anyway: --accept-finding smoke_failed)" in str(
        manifest.variants["fp8"].reason
    )
    assert engines.servers["fp8"].asked == []


async def test_a_silent_engine_has_only_empty_answers(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(accept_findings=["smoke_failed"])
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(always(Reply(""))))
    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "fp8") == {"empty": 6}


@pytest.mark.parametrize(
    ("variant", "options", "code"),
    [
        ("fp8", {"cache_dtype": "bfloat16"}, "dtype_mismatch"),
        ("fp8", {"capacity_tokens": 1_000_000}, "capacity_unchanged"),
        ("fp8", {"perplexity_logprob": -8.0}, "smoke_failed"),
        ("fp8", {"perplexity_logprob": float("nan")}, "smoke_failed"),
        ("fp8", {"perplexity_logprob": None}, "smoke_failed"),
    ],
)
async def test_a_candidate_that_does_something_else_is_refused_unless_accepted(
    plan_of: Planner, tmp_path: Path, variant: str, options: dict[str, Any], code: str
) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.options[variant] = options

    manifest = await run(plan_of(), tmp_path / "refused", engines)

    assert manifest.variants[variant].status == "refused"
    assert code in str(manifest.variants[variant].reason)
    assert code in [finding.code for finding in manifest.variants[variant].findings if finding.level == "error"]
    assert records(tmp_path / "refused", variant) == []

    manifest = await run(plan_of(accept_findings=[code]), tmp_path / "accepted", engines)

    assert manifest.variants[variant].status == "complete"
    assert code in [finding.code for finding in manifest.variants[variant].findings if finding.level == "error"]


async def test_a_refused_variant_is_measured_on_resume_once_accepted(plan_of: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.options["fp8"] = {"capacity_tokens": 1_000_000}
    await run(plan_of(), tmp_path / "run", engines)

    plan = plan_of(accept_findings=["capacity_unchanged"])
    manifest = await run(plan, tmp_path / "run", engines, resume=True)

    assert manifest.status == "complete"
    assert engines.launches == ["bf16", "fp8", "fp8"]


async def test_dead_emulation_is_refused(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", "int8"])
    engines = ScriptedEngines(Oracle(plan))
    engines.dead_emulation.add("int8")
    manifest = await run(plan, tmp_path / "run", engines)
    assert manifest.variants["int8"].status == "refused"
    assert "emulation_dead" in str(manifest.variants["int8"].reason)


@pytest.mark.parametrize(
    ("options", "code"), [({"cache_dtype": "fp8"}, "dtype_mismatch"), ({"perplexity_logprob": -9.0}, "smoke_failed")]
)
async def test_a_baseline_that_does_something_else_ends_the_run(
    plan_of: Planner, tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.options["bf16"] = options

    with pytest.raises(FactsError, match=code) as caught:
        await run(plan_of(), tmp_path / "run", engines)

    assert caught.value.exit_code == 3
    assert engines.launches == ["bf16"]
    assert not engines.servers["bf16"].is_up
    assert RunDirectory(tmp_path / "run").read_manifest().status == "incomplete"
