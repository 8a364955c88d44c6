"""A server whose /metrics cannot be read any more, from some moment on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from support.scripted import Reply
from support.scripted_endpoint import ScriptedEndpoint
from support.sweeps import Planner, Servers, codes, outcomes
from support.sweeps import attached_run as run

from kveval.measure.watch import facts
from kveval.run.directory import RunDirectory

SIXTY = {"samples": 60, "questions_per_haystack": 3, "requests": {"max_in_flight": 2, "max_attempts": 1}}


NO_METRICS = (
    PlainTextResponse("not found", 404),
    PlainTextResponse("<html><h1>502</h1></html>", media_type="text/html"),
    PlainTextResponse(""),
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "_SECONDS_BETWEEN", 0)


def always(page: Response) -> Callable[[str], Response]:
    return lambda _: page


def spoil(server: ScriptedEndpoint, page: Callable[[str], Response], *, after: int, until: int | None = None) -> None:
    """Changes what a server sends as /metrics from one request on, up to another."""
    handler, whole, count = server.handler, server.page_of_metrics, 0

    def spoiling(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal count
        count += 1
        if count in (after, until):
            server.page_of_metrics = page if count == after else whole
        return handler(prompt, body)

    server.handler = spoiling


def spoiled(name: str, value: str) -> Callable[[str], Response]:
    return lambda text: PlainTextResponse(re.sub(rf"(?m)^(vllm:{name}_total) .*", rf"\1 {value}", text))


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (spoiled("prefix_cache_hits", "NaN"), "metrics_unreadable"),
        (spoiled("prefix_cache_hits", "1e400"), "metrics_unreadable"),
        (spoiled("prefix_cache_hits", "none"), "metrics_unreadable"),
        (spoiled("prompt_tokens", "-3"), "metrics_unreadable"),
        (spoiled("prefix_cache_queries", "3"), "counters_reset"),
    ],
)
async def test_metrics_that_cannot_be_believed_any_more_are_a_finding(
    plan_for: Planner, servers: Servers, tmp_path: Path, page: Callable[[str], Response], code: str
) -> None:
    plan = plan_for(**SIXTY)
    spoil(servers["q8"], page, after=60)
    manifest = await run(plan, tmp_path / "run")
    assert manifest.status == "complete"
    assert codes(manifest.variants["q8"])[code] == "warning"
    assert code not in codes(manifest.variants["f16"])
    assert RunDirectory(tmp_path / "run").read_manifest() == manifest
    assert all(value >= 0 for value in manifest.variants["q8"].counters.values())


@pytest.mark.parametrize("page", NO_METRICS)
async def test_facts_that_are_not_told_at_the_end_vouch_for_no_answer(
    plan_for: Planner, servers: Servers, tmp_path: Path, page: Response
) -> None:
    plan, out = plan_for(**SIXTY), tmp_path / "run"
    spoil(servers["q8"], always(page), after=60)
    manifest = await run(plan, out)
    stopped = manifest.variants["q8"]
    assert (manifest.status, stopped.status) == ("incomplete", "stopped")
    changes = {change.name: change.after for change in stopped.facts_changed}
    assert changes["kv_capacity_tokens"] == "not told any more"
    assert "not told any more" in str(stopped.reason)
    assert codes(stopped)["metrics_lost"] == "warning"
    assert manifest.variants["f16"].status == "complete"
    kept = outcomes(out, "q8").total()
    assert 0 < kept < 60

    servers["q8"].page_of_metrics = PlainTextResponse
    resumed = await run(plan, out, resume=True)
    assert resumed.status == "complete"
    assert outcomes(out, "q8") == {"correct": 60}


async def test_facts_that_are_told_again_at_the_end_vouch_for_every_answer(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan, out = plan_for(**SIXTY), tmp_path / "run"
    spoil(servers["q8"], always(NO_METRICS[0]), after=40, until=60)
    manifest = await run(plan, out)
    assert manifest.status == "complete"
    assert codes(manifest.variants["q8"])["metrics_lost"] == "warning"
    assert outcomes(out, "q8") == {"correct": 60}


async def test_a_server_that_fails_to_tell_once_at_the_end_is_asked_again(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    server, sent = servers["q8"], 0

    def every_second_time(text: str) -> Response:
        nonlocal sent
        sent += 1
        return PlainTextResponse(text) if sent % 2 else NO_METRICS[0]

    plan = plan_for(**SIXTY)
    spoil(server, every_second_time, after=60)
    manifest = await run(plan, tmp_path / "run")
    assert manifest.status == "complete"


async def test_a_server_that_never_had_metrics_is_measured_as_before(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    servers["q8"].lacks.add("metrics")
    manifest = await run(plan_for(**SIXTY), tmp_path / "run")
    assert manifest.status == "complete"
