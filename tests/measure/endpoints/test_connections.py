"""Servers that do not answer, answer late, or are something else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.scripted import Reply
from support.sweeps import Planner, Servers, records, revoke_after
from support.sweeps import attached_run as run

from kveval.engines.client.dialect import Dialect
from kveval.engines.openai.probe import DialectProbe
from kveval.errors import (
    InfrastructureError,
)  # fmt: skip


async def test_an_unreachable_candidate_fails_alone_and_resume_goes_on(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for()
    await servers["q8"].stop()

    manifest = await run(plan, tmp_path / "run")

    assert {name: v.status for name, v in manifest.variants.items()} == {"f16": "complete", "q8": "failed"}
    # As on a machine that has room for one server at a time.
    await servers["q8"].start()
    await servers["f16"].stop()
    manifest = await run(plan, tmp_path / "run", resume=True)
    assert manifest.status == "complete"


async def test_a_rate_limit_is_waited_for(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for(requests={"max_in_flight": 1, "max_attempts": 1, "timeout_s": 20.0})
    revoke_after(servers["q8"], plan, 2, lambda server: server.rate_limits.extend([{"retry-after": "1"}] * 2))
    # Without a time to wait, as while the server is found out about.
    servers["f16"].rate_limits = [{}] * 2

    started = time.monotonic()
    manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    assert time.monotonic() - started >= 2
    assert [record.outcome for record in records(tmp_path / "run", "q8")] == ["correct"] * 6
    assert max(record.attempts for record in records(tmp_path / "run", "q8")) == 3


async def test_a_rate_limit_of_the_smoke_questions_refuses_nothing(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan = plan_for(requests={"max_in_flight": 1, "max_attempts": 1, "timeout_s": 20.0})
    find = DialectProbe.find

    async def limited_from_here(self: DialectProbe) -> Dialect:
        dialect = await find(self)
        for server in servers.values():
            server.rate_limits = [{"retry-after": "1"}]
        return dialect

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DialectProbe, "find", limited_from_here)
        manifest = await run(plan, tmp_path / "run")

    assert manifest.status == "complete"
    assert servers["q8"].rate_limits == []
    assert manifest.variants["f16"].smoke.perplexity > 1


async def test_a_rate_limit_without_end_is_an_error_soon(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    plan = plan_for(samples=12, requests={"max_in_flight": 1, "timeout_s": 2.0})
    revoke_after(servers["q8"], plan, 2, lambda server: server.rate_limits.extend([{"retry-after": "3600"}] * 999))

    started = time.monotonic()
    manifest = await run(plan, tmp_path / "run")

    assert time.monotonic() - started < 10
    assert manifest.variants["q8"].status == "stopped"
    assert "HTTP 429" in str(manifest.variants["q8"].reason)
    assert manifest.variants["f16"].status == "complete"


@pytest.mark.parametrize(
    "raw", ['{"choices": 5}', '{"choices": [{"logprobs": 3}]}', "[]", '{"usage": 3, "choices": [{"text": 4}]}',
            '{"choices": [{"text": "x", "logprobs": {"tokens": 1, "top_logprobs": [1]}}]}', '{"error": "no"}', "<html>",
            '{"choices": [{"text": "x", "logprobs": {"tokens": [1], "top_logprobs": [{"a": "b"}]}}], "model": 3}'],
)  # fmt: skip
async def test_answers_of_another_shape(plan_for: Planner, servers: Servers, tmp_path: Path, raw: str) -> None:
    plan = plan_for()
    servers["f16"].handler = lambda *_: Reply(raw=raw)
    with pytest.raises(InfrastructureError) as caught:
        await run(plan, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run" / "manifest.json").is_file()
