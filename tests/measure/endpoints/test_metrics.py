"""A server whose /metrics cannot be read any more, from some moment on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, Response
from support.scripted import Reply
from support.sweeps import Planner, Servers, codes
from support.sweeps import attached_run as run

from kveval.run.directory import RunDirectory

SIXTY = {"samples": 60, "questions_per_haystack": 3, "requests": {"max_in_flight": 2, "max_attempts": 1}}


def always(page: Response) -> Callable[[str], Response]:
    return lambda _: page


def spoiled(name: str, value: str) -> Callable[[str], Response]:
    return lambda text: PlainTextResponse(re.sub(rf"(?m)^(vllm:{name}_total) .*", rf"\1 {value}", text))


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (always(PlainTextResponse("not found", 404)), "metrics_lost"),
        (always(PlainTextResponse("<html><h1>502</h1></html>", media_type="text/html")), "metrics_lost"),
        (always(PlainTextResponse("")), "metrics_lost"),
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
    handler, count = servers["q8"].handler, 0

    def spoiling(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal count
        count += 1
        if count == 60:
            servers["q8"].page_of_metrics = page
        return handler(prompt, body)

    servers["q8"].handler = spoiling
    manifest = await run(plan, tmp_path / "run")
    assert manifest.status == "complete"
    assert codes(manifest.variants["q8"])[code] == "warning"
    assert code not in codes(manifest.variants["f16"])
    assert RunDirectory(tmp_path / "run").read_manifest() == manifest
    assert all(value >= 0 for value in manifest.variants["q8"].counters.values())
