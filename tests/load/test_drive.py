"""What one level sends and measures."""

from __future__ import annotations

import psutil
import pytest
from support.loads import OUTPUT_TOKENS, TOKENS, client_of, level, words
from support.scripted import ScriptedServer, always

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
