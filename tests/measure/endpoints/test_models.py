"""Which model a server serves, and how long its prompts may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scripted_endpoint import ScriptedEndpoint
from support.sweeps import Planner, Servers, records, revoke_after
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
