"""What reaches a server with the key, and what is kept without it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest
from support.event_stream import choice, events
from support.scripted import Reply, ScriptedServer, always

from kveval.config.engine import RequestsConfig
from kveval.engines.client.access import Access
from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.client.dialect import COMPLETIONS
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.request import EngineRequest
from kveval.tasks.sample import Chat


def test_a_key_is_not_shown() -> None:
    access = Access(api_key="sk-secret")
    assert "sk-secret" not in repr(access)
    assert access.message("Incorrect API key provided: sk-secret.") == "Incorrect API key provided: (key)."
    assert Access().message("text") == "text"


SPELLED = {
    "plain": 'sk-a/b+c:"d\\-0123456789',
    "of a URL": "sk-a/b%2Bc%3A%22d%5C-0123456789",
    "of a URL's query": "sk-a%2Fb%2Bc%3A%22d%5C-0123456789",
    "of JSON": 'sk-a/b+c:\\"d\\\\-0123456789',
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_a_key_is_hidden_however_it_is_spelled_and_wherever_it_was_cut(spelled: str) -> None:
    access = Access(api_key=SPELLED["plain"])
    assert access.data(f"a {spelled} b {spelled}{spelled}") == "a (key) b (key)(key)"
    for length in range(12, len(spelled)):
        assert spelled[:12] not in access.data(f"a {spelled[:length]}")
    assert access.data(f"a {spelled[:12]} b") == "a (key) b"
    for padding in range(470, 510):
        kept = access.message("x" * padding + spelled)
        assert kept == ("x" * padding + "(key)")[:500]


def test_a_key_that_may_be_a_word_stays_in_answers() -> None:
    assert Access(api_key="EMPTY").data("it is EMPTY") == "it is EMPTY"
    assert Access(api_key="EMPTY").message("wrong key EMPTY") == "wrong key (key)"


def test_what_is_kept_of_a_model_holds_no_key() -> None:
    models = {"data": [{"id": "b", "root": "/of/sk-secret", "parent": {"sk-secret": 1}, "max_model_len": 8}]}
    assert Access(api_key="sk-secret").entry_of(models, "b") == {"id": "b", "root": "/of/(key)", "max_model_len": 8}
    assert Access(api_key="sk-secret").entry_of(models, "c") is None


def test_the_entry_of_a_model() -> None:
    models = {"data": [{"id": "a"}, {"id": "b", "root": "/m", "created": 17, "meta": {"n_params": 5, "vocab": 3}}]}
    assert Access().entry_of(models, "b") == {"id": "b", "root": "/m", "n_params": 5}
    assert Access().entry_of(models, "c") is None
    for broken in (None, [], {"data": None}, {"data": ["b"]}, {"data": {"id": "b"}}):
        assert Access().entry_of(broken, "b") is None


REQUEST = EngineRequest(np.arange(1, 33, dtype=np.int32), 16)


KEY = "sk-secret-0123456789"


async def ask_with_key(reply: Reply, request: EngineRequest = REQUEST, access: Access | None = None) -> EngineAnswer:
    async with ScriptedServer(always(reply)) as server:
        config = RequestsConfig(max_attempts=1)
        access = access or Access(api_key=KEY)
        async with Client(server.base_url, "kveval", config, lambda: None, access=access) as client:
            return await client.ask(request)


@pytest.mark.parametrize("padding", [0, 170, 192, 194, 480, 490, 495, 1990])
@pytest.mark.parametrize(
    "reply",
    [
        lambda said: Reply(status=500, message=said),
        lambda said: Reply(raw=events({"error": {"message": said}})),
        lambda said: Reply(raw=events(said)),
        lambda said: Reply(raw=events(json.dumps([said]))),
        lambda said: Reply(raw=events({"choices": said})),
        lambda said: Reply(raw=events(choice(finish_reason={"a": said}))),
    ],
)
async def test_no_message_holds_the_key_wherever_it_is_cut(reply: Any, padding: int) -> None:
    answer = await ask_with_key(reply("x" * padding + KEY))
    assert answer.error_kind
    assert KEY[:5] not in repr(answer)
    assert len(answer.error_message) <= 500


async def test_an_answer_with_the_key_in_it_is_kept_without() -> None:
    pieces = [choice(text=text, finish_reason=None, logprobs={"tokens": ["token_id:4"]}) for text in ("a ", KEY[:7])]
    answer = await ask_with_key(Reply(raw=events(*pieces, {**choice(text=f"{KEY[7:]} b"), "model": KEY})))
    assert (answer.error_kind, answer.text, answer.model) == (None, "a (key) b", "(key)")
    # They spell it as well.
    assert (answer.output_token_ids, answer.top_ids, answer.top_logprobs) == ([], [], [])
    aborted = await ask_with_key(Reply(raw=events({"choices": [{"text": KEY, "finish_reason": KEY}]}, done=False)))
    assert KEY[:5] not in repr(aborted)


async def test_a_tool_call_with_the_key_in_it_is_kept_without() -> None:
    request = EngineRequest(np.arange(4, dtype=np.int32), 16, chat=Chat(messages=({"role": "user", "content": "hi"},)))
    for arguments in (json.dumps({"auth": f"Bearer {KEY}"}), f"no JSON {KEY}"):
        answer = await ask_with_key(Reply(tool_calls=((f"use_{KEY}", arguments),)), request)
        assert answer.error_kind is None
        assert "use_(key)" in answer.text
        assert KEY[:5] not in repr(answer)


async def test_the_same_model_is_not_another_because_its_name_is_hidden() -> None:
    access = Access(api_key=KEY, answers_as={(COMPLETIONS, True): "of (key)"})
    answer = await ask_with_key(Reply(raw=events({**choice(), "model": f"of {KEY}"})), access=access)
    assert answer.error_kind is None


async def test_the_perplexitys_message_holds_no_key() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(400, text="x" * 490 + KEY))
    async with Client("http://server", "kveval", RequestsConfig(), lambda: None, access=Access(KEY)) as client:
        client._http = httpx.AsyncClient(base_url="http://server", transport=transport)
        with pytest.raises(RequestFailedError, match="HTTP 400: xxx") as caught:
            await client.perplexity("text")
    assert KEY[:5] not in str(caught.value)
