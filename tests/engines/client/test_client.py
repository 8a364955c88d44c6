from __future__ import annotations

import json
import math
import time
from typing import Any

import httpx
import numpy as np
import pytest
from support.event_stream import choice, events
from support.scripted import Reply, ScriptedServer, always, serving

from kveval.config.engine import RequestsConfig
from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.request import EngineRequest

REQUEST = EngineRequest(np.arange(1, 33, dtype=np.int32), 16)


async def ask(reply: Reply, **config: Any) -> tuple[EngineAnswer, ScriptedServer]:
    async with serving(always(reply), **config) as (client, server):
        return await client.ask(REQUEST), server


async def test_an_answer() -> None:
    before = time.time()
    answer, server = await ask(Reply("three short words", token_delay_s=0.01))
    assert answer.error_kind is None
    assert answer.text == "three short words"
    assert answer.finish_reason == "stop"
    assert answer.prompt_tokens == 32
    assert answer.cached_tokens == 0
    assert len(answer.output_token_ids) == 3
    assert answer.chunk_tokens == [1, 1, 1]
    assert [len(row) for row in answer.top_ids] == [2, 2, 2]
    assert answer.top_logprobs == [[-0.1, -5.0]] * 3
    assert before <= answer.sent_at <= time.time()
    assert answer.ttft_ms == answer.token_ms[0] > 0
    assert answer.itl_ms == pytest.approx((answer.token_ms[2] - answer.token_ms[0]) / 2)
    assert answer.token_ms == sorted(answer.token_ms)
    assert answer.total_ms >= answer.token_ms[-1]
    assert answer.attempts == 1
    assert server.requests[0]["prompt"] == list(range(1, 33))


async def test_an_empty_answer_is_no_error() -> None:
    answer, _ = await ask(Reply(""))
    assert (answer.error_kind, answer.text, answer.ttft_ms, answer.itl_ms) == (None, "", None, None)


@pytest.mark.parametrize(
    ("reply", "kind", "attempts", "message"),
    [
        (Reply(status=500), "http_500", 3, "HTTP 500: scripted failure"),
        (Reply(status=503), "http_503", 3, "HTTP 503"),
        (Reply(status=429), "http_429", 3, "HTTP 429"),
        (Reply(status=400, message="This model's maximum"), "bad_request", 1, "HTTP 400: This model's maximum"),
        (Reply(status=404), "http_404", 1, "HTTP 404"),
        (Reply("a", finish_reason=None), "broken_stream", 3, "ended without a finish_reason"),
        (Reply("a", finish_reason="abort"), "aborted", 3, "broke the output off"),
        (Reply("a", logprob=float("nan")), "non_finite", 1, "non-finite logprobs"),
        (Reply("a", logprob=None), "non_finite", 1, "non-finite logprobs"),
        (Reply(raw=events("{broken")), "broken_stream", 3, "not JSON: {broken"),
        (Reply(raw=events([1])), "broken_stream", 3, "not an object"),
        (Reply(raw=events(done=False)), "broken_stream", 3, "ended without"),
        (Reply(raw="<html>no stream</html>"), "broken_stream", 3, "not JSON: <html>no stream</html>"),
        (Reply(raw=events({"error": {"message": "EngineDeadError"}})), "http_500", 3, "EngineDeadError"),
        (Reply(raw=events({"choices": 3})), "broken_stream", 3, "unexpected answer"),
        (Reply(raw=events({"choices": [None]})), "broken_stream", 3, "unexpected answer"),
        (Reply(raw=events(choice(text=5))), "broken_stream", 3, "unexpected answer"),
        (Reply(raw=events(choice(finish_reason={"a": 1}))), "broken_stream", 3, "unexpected answer"),
        (Reply(raw=events(choice(logprobs={"top": 1}))), "broken_stream", 3, "unexpected answer"),
        (Reply(raw=events(choice(logprobs={"tokens": ["word"]}))), "broken_stream", 3, "unexpected answer"),
        (Reply(raw=events(choice(logprobs={"tokens": [f"token_id:{1 << 40}"]}))), "broken_stream", 3, "unexpected"),
        (
            Reply(raw=events(choice(logprobs={"tokens": [], "top_logprobs": [{"token_id:1": "a"}]}))),
            "broken_stream",
            3,
            "unexpected answer",
        ),
        (Reply(raw=events(choice(), {"usage": {"prompt_tokens": "many"}})), "broken_stream", 3, "unexpected answer"),
        (Reply(raw=events(choice(), {"usage": [1]})), "broken_stream", 3, "unexpected answer"),
    ],
)
async def test_what_a_server_can_do_wrong(reply: Reply, kind: str, attempts: int, message: str) -> None:
    answer, server = await ask(reply)
    assert (answer.error_kind, answer.attempts) == (kind, attempts)
    assert message in answer.error_message
    assert len(server.requests) == attempts
    assert answer.is_server_failure == (kind not in ("bad_request", "non_finite"))


async def test_a_server_that_goes_away_mid_answer() -> None:
    answer, _ = await ask(Reply("going away", die=True), max_attempts=1)
    assert answer.error_kind == "connection"
    assert answer.error_message


async def test_no_server_at_all() -> None:
    async with Client("http://127.0.0.1:1", "kveval", RequestsConfig(), lambda: None) as client:
        answer = await client.ask(REQUEST)
        assert answer.error_kind == "connection"
        assert not await client.is_healthy()
        assert await client.metrics_text() == ""
        with pytest.raises(RequestFailedError, match="ConnectError"):
            await client.perplexity("text")


async def test_a_dead_server_is_not_asked_again() -> None:
    async with Client("http://127.0.0.1:1", "kveval", RequestsConfig(), lambda: "exit code -9") as client:
        answer = await client.ask(REQUEST)
    assert (answer.attempts, answer.error_message) == (1, "exit code -9")


async def test_a_retry_that_succeeds_leaves_nothing_of_the_first_attempt() -> None:
    replies = iter([Reply(raw=events({"choices": [{"text": "half of an"}]}, done=False)), Reply("a whole answer")])
    async with serving(lambda _prompt, _body: next(replies)) as (client, _):
        answer = await client.ask(REQUEST)
    assert (answer.error_kind, answer.text, answer.attempts) == (None, "a whole answer", 2)
    assert len(answer.token_ms) == 3


@pytest.mark.parametrize("reply", [Reply("a", hang=True), Reply("one token at a time for ever", token_delay_s=0.15)])
async def test_a_whole_answer_must_come_within_the_timeout(reply: Reply) -> None:
    """Each token of the second comes in time; all of them together do not."""
    started = time.perf_counter()
    answer, _ = await ask(reply, timeout_s=0.4, max_attempts=1)
    assert time.perf_counter() - started < 3
    assert (answer.error_kind, answer.error_message) == ("timeout", "no whole answer within 0.4 s")


async def test_alternatives_are_ranked_and_the_engines_zero_probability_is_kept() -> None:
    top = [{"token_id:7": -2.0, "token_id:8": -9999.0, "token_id:9": -0.5}]
    answer, _ = await ask(Reply(raw=events(choice(logprobs={"tokens": ["token_id:9"], "top_logprobs": top}))))
    assert answer.top_ids == [[9, 7, 8]]
    assert answer.top_logprobs == [[-0.5, -2.0, -9999.0]]
    assert answer.output_token_ids == [9]


async def test_several_tokens_in_one_chunk() -> None:
    two = {"tokens": ["token_id:1", "token_id:2"], "top_logprobs": [None, None]}
    answer, _ = await ask(Reply(raw=events(choice(logprobs=two, finish_reason=None), choice(logprobs=two))))
    assert answer.chunk_tokens == [2, 2]
    assert answer.itl_ms == pytest.approx((answer.token_ms[1] - answer.token_ms[0]) / 3)


async def test_half_a_surrogate_pair_becomes_text() -> None:
    answer, _ = await ask(Reply(raw='data: {"choices": [{"text": "a\\ud800b", "finish_reason": "stop"}]}\n\n'))
    assert answer.text == "a?b"
    answer, _ = await ask(Reply(status=400, message="\ud800"))
    assert answer.error_message == "HTTP 400: ?"


async def test_perplexity() -> None:
    async with serving(always(Reply())) as (client, server):
        server.perplexity_logprob = -2.0
        assert await client.perplexity("text") == pytest.approx(math.exp(2.0))
        for value, message in ((float("nan"), "not finite"), (None, "unusable"), (-1e9, "unusable")):
            server.perplexity_logprob = value
            with pytest.raises(RequestFailedError, match=message) as caught:
                await client.perplexity("text")
            assert caught.value.kind == "non_finite"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, '{"error": "text"}', "HTTP 400: text"),
        (422, '{"detail": [{"loc": ["body"], "msg": "too long"}, {"msg": "no"}]}', "HTTP 422: too long; no"),
        (400, '{"message": "older"}', "HTTP 400: older"),
        (500, "<html>", "HTTP 500: <html>"),
        (500, "[1]", r"HTTP 500: \[1\]"),
    ],
)
async def test_messages_of_failures(status: int, body: str, message: str) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(status, text=body))
    async with Client("http://server", "kveval", RequestsConfig(max_attempts=1), lambda: None) as client:
        client._http = httpx.AsyncClient(base_url="http://server", transport=transport)
        with pytest.raises(RequestFailedError, match=message):
            await client.perplexity("text")


@pytest.mark.parametrize("quirk", ["separators", "whole"])
async def test_unusual_but_right_answers_are_read(quirk: str) -> None:
    whole = json.dumps(choice(text="one\u2028two"), ensure_ascii=False)
    raw = f"data: {whole}\n\ndata: [DONE]\n\n" if quirk == "separators" else whole
    media_type = "text/event-stream" if quirk == "separators" else "application/json"
    answer, _ = await ask(Reply(raw=raw, media_type=media_type))
    assert (answer.error_kind, answer.text) == (None, "one\u2028two")
    # An answer in one piece says nothing about its first token.
    assert (answer.ttft_ms is None) == (quirk == "whole")


@pytest.mark.parametrize("between", ["\n", "\n\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\ndata: [DONE]", "\n\ndata: [DONE]\n\n"])
async def test_the_end_of_an_answer_is_read_however_its_events_end(between: str, end: str) -> None:
    values = [choice(text="a", finish_reason=None), choice(text="b"), {"choices": [], "usage": {"prompt_tokens": 32}}]
    answer, _ = await ask(Reply(raw=between.join(f"data: {json.dumps(value)}" for value in values) + end))
    assert (answer.error_kind, answer.text, answer.finish_reason) == (None, "ab", "stop")
    assert answer.prompt_tokens == 32
    # When the tokens of one long event came is not known.
    assert (answer.ttft_ms is None) == (between == "\n")


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
async def test_an_answer_whose_last_event_is_cut_is_a_failure(end: str) -> None:
    whole = json.dumps(choice())
    answer, _ = await ask(Reply(raw=f"data: {json.dumps(choice(finish_reason=None))}\n\ndata: {whole[:-9]}{end}"))
    assert answer.error_kind == "broken_stream"


async def test_a_long_stream_of_short_events_has_an_end_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.events._MAX_ANSWER_BYTES", 1000)
    answer, _ = await ask(Reply("one word and another " * 50))
    assert (answer.error_kind, len(answer.token_ms)) == (None, 200)
