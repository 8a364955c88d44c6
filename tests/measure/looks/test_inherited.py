from __future__ import annotations

from pathlib import Path

import pytest
from support.sweeps import Planner

from kveval.measure.looks.inherited import allowance_hours, inherit_stops, with_looks
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.manifest import new_manifest
from kveval.measure.plan.plan import Plan
from kveval.run.directory import RunDirectory
from kveval.run.looks import Stop, StopCause


@pytest.fixture
def plan(plan_of: Planner) -> Plan:
    return plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}], aa_share=0.5, budget={"gpu_hours": 3.0})


@pytest.fixture
def manifest(plan: Plan, tmp_path: Path) -> ManifestFile:
    path = tmp_path / "run"
    path.mkdir()
    return ManifestFile(RunDirectory(path), new_manifest(plan))


def stop(look: int, cause: StopCause = "decided") -> Stop:
    return Stop(look=look, cause=cause, reason="said")


def test_a_control_stops_with_its_candidate_and_everything_with_the_baseline(
    plan: Plan, manifest: ManifestFile
) -> None:
    baseline, aa, candidate, control = plan.variants
    assert [one.role for one in plan.variants] == ["baseline", "aa", "candidate", "control"]
    manifest.update(candidate, stopped={512: stop(1)})
    manifest.update(baseline, stopped={512: stop(2, "budget"), 640: stop(2, "budget")})
    for one in plan.variants:
        inherit_stops(manifest, one)
    assert manifest.of(aa).stopped == {512: stop(2, "budget"), 640: stop(2, "budget")}
    assert manifest.of(candidate).stopped == {512: stop(1), 640: stop(2, "budget")}
    assert manifest.of(control).stopped == {512: stop(1), 640: stop(2, "budget")}


def test_only_what_is_decided_stays_stopped_when_a_run_grows(plan: Plan, manifest: ManifestFile) -> None:
    manifest.update(plan.variants[2], stopped={1: stop(1), 2: stop(1, "futile"), 3: stop(1, "budget")})
    before = with_looks(manifest.manifest, plan, is_judged=True)
    assert before.planned_looks == list(plan.looks.looks)
    before = before.model_copy(update={"variants": manifest.manifest.variants})
    resumed = with_looks(before, plan, is_judged=True)
    grown = with_looks(before.model_copy(update={"planned_looks": []}), plan, is_judged=True)
    assert list(resumed.variants["fp8"].stopped) == [1, 2]
    assert list(grown.variants["fp8"].stopped) == [1]


def test_server_time_is_shared_equally_by_what_is_left(plan: Plan, manifest: ManifestFile) -> None:
    baseline, aa, candidate, _ = plan.variants
    assert allowance_hours(plan, manifest, baseline) == pytest.approx(0.75)
    manifest.update(baseline, server_seconds=1800.0, status="complete")
    manifest.update(aa, server_seconds=0.0, status="complete")
    assert allowance_hours(plan, manifest, candidate) == pytest.approx(1.25)
