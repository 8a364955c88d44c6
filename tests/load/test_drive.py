"""What one level sends and measures."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
from support.loads import OUTPUT_TOKENS, TOKENS, client_of, level, words
from support.scripted import Reply, ScriptedServer, always

from kveval.load.drive import drive
from kveval.load.prompts import arrivals_s
from kveval.load.summary import summarize


async def test_what_a_level_measures() -> None:
    async with ScriptedServer(always(words(delay_s=0.05, token_delay_s=0.02))) as server, client_of(server) as client:
        driven = await drive(level(), client, TOKENS, salt="s", processes=[psutil.Process()], sample_interval_s=0.05)
        assert server.most_running == 2
        bodies = server.requests
    result = summarize(driven)

    assert [body["ignore_eos"] for body in bodies] == [True] * 8
    assert {body["max_tokens"] for body in bodies} == {OUTPUT_TOKENS}
    assert all("logprobs" not in body for body in bodies)
    assert result.outcomes == {"completed": 6}
    assert result.warmup_outcomes == {"completed": 2}
    assert result.prompt_tokens == 6 * 64
    assert result.output_tokens == 6 * OUTPUT_TOKENS
    assert result.ttft_ms.n == result.itl_ms.n == result.latency_ms.n == 6
    assert result.gap_ms.n == 6 * (OUTPUT_TOKENS - 1)
    assert result.ttft_ms.median is not None
    assert result.itl_ms.median is not None
    assert result.ttft_ms.median >= 70
    assert 20 <= result.itl_ms.median < 60
    assert result.output_tokens_per_s == pytest.approx(result.output_tokens / result.duration_s, rel=1e-3)
    assert result.total_tokens_per_s == pytest.approx(
        (result.output_tokens + result.prompt_tokens) / result.duration_s, rel=1e-3
    )
    assert result.running is not None
    assert result.running.n >= 2
    assert result.kv_usage_percent is not None
    assert result.engine_rss_bytes is not None
    assert (result.engine_rss_bytes.peak or 0) > 1 << 20
    assert result.preemptions == result.prefix_hit_tokens == 0
    assert result.findings == []
    assert [row.outcome for row in result.requests] == ["completed"] * 6


async def test_errors_and_short_outputs_are_counted_and_time_nothing() -> None:
    seen = 0

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal seen
        seen += 1
        if seen == 3:
            return Reply(status=500, message="no such luck")
        return words(2) if seen == 4 else words()

    async with ScriptedServer(handler) as server, client_of(server) as client:
        driven = await drive(level(warmup_requests=0, concurrency=1), client, TOKENS, salt="s")
    result = summarize(driven)
    assert result.outcomes == {"completed": 4, "http_500": 1, "short_output": 1}
    assert result.ttft_ms.n == 4
    assert result.output_tokens == 4 * OUTPUT_TOKENS + 2
    finding = result.findings[0]
    assert (finding.level, finding.code) == ("warning", "load_failures")
    assert "of 6 requests 1 http_500, 1 short_output: HTTP 500: no such luck" in finding.message


async def test_hits_of_the_prefix_cache_are_a_finding() -> None:
    async with ScriptedServer(always(words())) as server, client_of(server) as client:
        await drive(level(), client, TOKENS, salt="the same")
        again = summarize(await drive(level(), client, TOKENS, salt="the same"))
        other = summarize(await drive(level(), client, TOKENS, salt="another"))
    assert again.prefix_hit_tokens == 6 * 48
    assert [finding.code for finding in again.findings] == ["load_prefix_hits"]
    assert "288 of 384 prompt tokens" in again.findings[0].message
    assert other.prefix_hit_tokens == 0


async def test_an_open_loop_does_not_wait_for_answers() -> None:
    arriving = level(kind="open", concurrency=None, request_rate=40.0, requests=8, warmup_requests=0)
    async with ScriptedServer(always(words(delay_s=1.0))) as server, client_of(server) as client:
        driven = await drive(arriving, client, TOKENS, salt="s")
        assert server.most_running >= 6
    expected = arrivals_s(arriving)
    assert expected[-1] == pytest.approx(8 / 40)
    sent = sorted(one.sent_s for one in driven.sent)
    # A busy machine sends late, never early.
    assert all(when >= due - 0.01 for when, due in zip(sent, expected, strict=True))
