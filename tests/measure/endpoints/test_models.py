"""Which model a server serves, and how long its prompts may be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.scripted_endpoint import ScriptedEndpoint
from support.sweeps import Planner, Servers, codes, endpoint, records, revoke_after
from support.sweeps import attached_run as run

from kveval.errors import (
    PlanError,
    ResumeError,
)  # fmt: skip


def test_a_declared_window_is_planned_with(plan_for: Planner) -> None:
    with pytest.raises(PlanError, match=r"context_lengths of niah_single: 512 .* do not fit max-model-len of f16"):
        plan_for({"declared": {"max_model_len": 300}})


@pytest.mark.parametrize("how", ["answers", "listed", "root"])
async def test_a_model_that_changes_midway_stops_the_variant(
    plan_for: Planner, servers: Servers, tmp_path: Path, how: str
) -> None:
    plan = plan_for(requests={"max_in_flight": 1})

    def change(server: ScriptedEndpoint) -> None:
        if how == "answers":
            server.answers_as = "another"
        else:
            server.models = [{"id": "another"}] if how == "listed" else [{"id": "served", "root": "/models/another"}]

    revoke_after(servers["q8"], plan, 3, change)

    manifest = await run(plan, tmp_path / "run")

    q8 = manifest.variants["q8"]
    assert q8.status == "stopped"
    assert "another" in str(q8.reason)
    # Only answers between two readings of the same facts are kept.
    kept = {"listed": 3, "answers": 0, "root": 0}[how]
    assert len(records(tmp_path / "run", "q8")) == kept
    aside = tmp_path / "run" / "set_aside" / "records" / "q8.jsonl"
    assert (len(aside.read_text().splitlines()) if aside.exists() else 0) == 3 - kept
    changed = {"listed": [], "answers": ["answers_as"], "root": ["served_model"]}[how]
    assert [change.name for change in q8.facts_changed] == changed
    assert manifest.variants["f16"].status == "complete"
    if how != "listed":
        with pytest.raises(ResumeError, match="q8 was"):
            await run(plan, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"root": "/models/other"}, "other_model"),
        ({"max_model_len": 1 << 19}, "other_max_model_len"),
        ({"answers_as": "gpt-4o-mini"}, "other_answering_model"),
    ],
)
async def test_a_candidate_with_another_model_than_the_baselines_is_refused(
    plan_for: Planner, servers: Servers, tmp_path: Path, change: dict[str, Any], code: str
) -> None:
    servers["f16"].models = [{"id": "served", "root": "/models/x", "max_model_len": 1 << 20}]
    answers_as = change.pop("answers_as", "served")
    servers["q8"].models, servers["q8"].answers_as = [{**servers["f16"].models[0], **change}], answers_as

    manifest = await run(plan_for(), tmp_path / "refused")
    assert manifest.variants["q8"].status == "refused"
    assert f"--accept-finding {code}" in str(manifest.variants["q8"].reason)
    assert records(tmp_path / "refused", "q8") == []

    manifest = await run(plan_for(accept_findings=[code]), tmp_path / "accepted")
    assert manifest.status == "complete"
    assert codes(manifest.variants["q8"])[code] == "error"


async def test_a_variant_may_say_that_its_server_has_another_checkpoint(
    plan_for: Planner, servers: Servers, checkpoint: Path, tmp_path: Path
) -> None:
    other = tmp_path / "calibrated"
    shutil.copytree(checkpoint, other)
    servers["f16"].models = [{"id": "served", "root": "/models/x", "max_model_len": 1 << 20}]
    servers["q8"].models = [{"id": "served", "root": "/models/x-calibrated", "max_model_len": 1 << 20}]
    variants = [
        {"name": "f16", "endpoint": endpoint(servers["f16"])},
        {"name": "q8", "kv_cache_dtype": "q8_0", "endpoint": endpoint(servers["q8"]), "model": str(other)},
    ]
    manifest = await run(plan_for(variants=variants), tmp_path / "run")
    assert manifest.status == "complete"
    assert "other_model" not in codes(manifest.variants["q8"])
