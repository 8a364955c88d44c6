"""What is told of one level."""

from __future__ import annotations

from typing import Any

from support.loads import OUTPUT_TOKENS, TOKENS, client_of, level, words
from support.scripted import Reply, ScriptedServer, always

from kveval.load.drive import drive
from kveval.load.summary import summarize


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


async def test_times_count_the_servers_tokens() -> None:
    reply = words(3, token_delay_s=0.04, tokens_per_word=4)
    async with ScriptedServer(always(reply)) as server, client_of(server) as client:
        result = summarize(await drive(level(output_tokens=12), client, TOKENS, salt="s"))
    assert result.outcomes == {"completed": 6}
    assert result.output_tokens == 6 * 12
    # Two gaps of 40 ms, and eleven tokens after the first.
    assert 80 / 11 <= (result.itl_ms.median or 0) < 16


async def test_an_empty_first_event_is_not_the_first_token() -> None:
    reply = words(empty_first=True, token_delay_s=0.02)
    async with ScriptedServer(always(reply)) as server, client_of(server) as client:
        result = summarize(await drive(level(), client, TOKENS, salt="s"))
    assert result.outcomes == {"completed": 6}
    assert (result.ttft_ms.median or 0) >= 20
    assert result.gap_ms.n == 6 * (OUTPUT_TOKENS - 1)


async def test_answers_that_arrive_at_once_have_no_times_to_a_token() -> None:
    reply = words(12, collects=True, token_delay_s=0.01)
    async with ScriptedServer(always(reply)) as server, client_of(server) as client:
        result = summarize(await drive(level(output_tokens=12), client, TOKENS, salt="s"))
    assert result.outcomes == {"completed": 6}
    assert (result.ttft_ms.n, result.itl_ms.n, result.gap_ms.n, result.latency_ms.n) == (0, 0, 0, 6)
    assert [finding.code for finding in result.findings] == ["load_arrived_at_once"]
    assert "6 of 6 answers arrived at once" in result.findings[0].message
