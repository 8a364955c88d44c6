"""One request after the other to a server that already runs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from support.scripted import Reply
from support.scripted_endpoint import ScriptedEndpoint

from kveval.config.endpoint import EndpointConfig
from kveval.engines.client.access import Access
from kveval.engines.client.dialect import CHAT_COMPLETIONS, COMPLETIONS
from kveval.engines.openai import requests
from kveval.engines.openai.requests import Requests
from kveval.errors import EngineError

PLAIN = {"prompt": [1, 2, 3]}
BODY = {**PLAIN, "logprobs": 5}


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_DEFAULT_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(requests, "_MAX_GATEWAY_SECONDS", 0.05)
    monkeypatch.setattr(requests, "_MAX_RATE_LIMIT_SECONDS", 0.2)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedEndpoint]:
    async with ScriptedEndpoint(lambda *_: Reply("hello there")) as server:
        yield server


@pytest.fixture
async def asking(server: ScriptedEndpoint) -> AsyncIterator[Requests]:
    access, endpoint = Access(), EndpointConfig(url=server.base_url, model="served")
    async with access.http(server.base_url, httpx.Timeout(5.0)) as http:
        yield Requests(http, "f16: here", access, endpoint)


async def test_a_dropped_connection_is_tried_once_more(asking: Requests, server: ScriptedEndpoint) -> None:
    server.drops = {"logprobs": 1}
    reply = await asking.probe(COMPLETIONS, BODY)
    assert (reply.refusal, reply.first("text")) == (None, "hello there")


async def test_a_request_that_is_dropped_again_is_lost(asking: Requests, server: ScriptedEndpoint) -> None:
    server.drops = {"logprobs": 2}
    reply = await asking.probe(COMPLETIONS, BODY)
    assert reply.is_lost
    assert "it closes the connection without an answer" in (reply.refusal or "")


@pytest.mark.parametrize(("status", "is_lost"), [(400, False), (401, False), (403, False), (500, False), (502, True)])
async def test_a_server_that_has_answered_refuses_one_request(
    asking: Requests, server: ScriptedEndpoint, status: int, is_lost: bool
) -> None:
    assert (await asking.probe(COMPLETIONS, PLAIN)).refusal is None
    server.drops, server.drop_status = {"logprobs": 99}, status
    reply = await asking.probe(COMPLETIONS, BODY)
    assert (reply.refusal, reply.is_lost) == (f"HTTP {status}: no luck", is_lost)


@pytest.mark.parametrize(("status", "message"), [(401, "it wants a key"), (503, "use: a server with capacity")])
async def test_a_server_that_never_answered_refuses_all(
    asking: Requests, server: ScriptedEndpoint, status: int, message: str
) -> None:
    server.drops, server.drop_status = {"logprobs": 99}, status
    with pytest.raises(EngineError, match=f"^f16: here: HTTP {status}.*{message}"):
        await asking.probe(COMPLETIONS, BODY)


async def test_an_error_inside_an_answer_is_a_refusal(asking: Requests, server: ScriptedEndpoint) -> None:
    server.handler = lambda *_: Reply(raw='{"detail": "no room"}')
    assert (await asking.probe(COMPLETIONS, PLAIN)).refusal == "error in the answer: no room"


async def test_names_are_kept_by_the_form_of_the_answer(asking: Requests, server: ScriptedEndpoint) -> None:
    server.streams_as = "hosted/served"
    await asking.probe(COMPLETIONS, PLAIN)
    await asking.probe(COMPLETIONS, {**PLAIN, "stream": True})
    await asking.probe(CHAT_COMPLETIONS, {"messages": []})
    assert asking.answers_as == {
        (COMPLETIONS, False): "served", (COMPLETIONS, True): "hosted/served", (CHAT_COMPLETIONS, False): "served",
    }  # fmt: skip


async def test_what_not_every_server_has_may_break_the_connection(asking: Requests, server: ScriptedEndpoint) -> None:
    assert await asking.optional("/version") is not None
    server.drops = {"GET": 1}
    assert await asking.optional("/version") is None
    await server.stop()
    with pytest.raises(EngineError, match="nothing answers there"):
        await asking.optional("/version")
