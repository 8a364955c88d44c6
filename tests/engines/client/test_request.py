"""How a request is spelled for the server that gets it."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.scripted import Reply, always, serving

from kveval.engines.client.access import Access
from kveval.engines.client.dialect import Dialect
from kveval.engines.client.request import EngineRequest, body_of
from kveval.engines.plugin.forcing import ForcedOutput
from kveval.tasks.sample import Chat

REQUEST = EngineRequest(np.arange(1, 33, dtype=np.int32), 16)


async def test_what_is_sent_to_the_completion_endpoint() -> None:
    request = EngineRequest(np.array([5, 6], np.int32), 7, stop=("\n",), cache_salt="cold")
    async with serving(always(Reply("a"))) as (client, server):
        await client.ask(request)
    assert server.requests == [
        {
            "model": "kveval", "prompt": [5, 6], "max_tokens": 7, "temperature": 0.0, "seed": 0, "stream": True,
            "stream_options": {"include_usage": True}, "logprobs": 20, "return_tokens_as_token_ids": True,
            "stop": ["\n"], "cache_salt": "cold",
        }
    ]  # fmt: skip
    async with serving(always(Reply("a")), logprobs=0) as (client, server):
        assert (await client.ask(REQUEST)).error_kind is None
    assert not server.requests[0].keys() & {"logprobs", "return_tokens_as_token_ids", "stop", "cache_salt"}


def body(dialect: Dialect, **changes: Any) -> tuple[dict[str, Any], int]:
    request = EngineRequest(np.array([1, 20, 30], np.int32), 7, **changes)
    return body_of(request, model="m", logprobs=20, access=Access(dialect=dialect, cache_salt="aa"), spell=spell)


def spell(ids: list[int]) -> tuple[str, int]:
    """As a tokenizer that makes one token more of the text."""
    return " ".join(map(str, ids)), len(ids) + 1


def test_a_text_is_sent_where_ids_are_not_taken_and_its_tokens_are_counted_anew() -> None:
    sent, tokens = body(Dialect(prompt="text", added_tokens=1))
    assert (sent["prompt"], tokens) == ("1 20 30", 5)
    sent, tokens = body(Dialect(prompt="text_without_bos"))
    assert (sent["prompt"], tokens) == ("20 30", 4)
    sent, tokens = body(Dialect())
    assert (sent["prompt"], tokens) == ([1, 20, 30], 3)


def test_nothing_is_sent_that_the_server_does_not_understand() -> None:
    sent, _ = body(Dialect(streams=False, most_logprobs=5, unknown_fields=frozenset({"seed", "cache_salt"})))
    assert sent["logprobs"] == 5
    assert not sent.keys() & {"stream", "stream_options", "seed", "cache_salt"}
    assert "logprobs" not in body(Dialect(most_logprobs=0))[0]


def test_the_salt_of_a_request_goes_before_that_of_the_server() -> None:
    assert body(Dialect())[0]["cache_salt"] == "aa"
    assert body(Dialect(), cache_salt="cold")[0]["cache_salt"] == "cold"


def test_an_output_of_an_exact_length_ignores_its_end() -> None:
    assert "ignore_eos" not in body(Dialect())[0]
    assert body(Dialect(), ignore_eos=True)[0]["ignore_eos"] is True


def test_a_chat_asks_for_logprobs_only_if_they_name_ids() -> None:
    chat = Chat(messages=({"role": "user", "content": "hi"},))
    sent, tokens = body(Dialect(prompt="text"), chat=chat)
    assert (sent["top_logprobs"], tokens, "prompt" in sent) == (20, 3, False)
    assert "top_logprobs" not in body(Dialect(names_tokens_by="text"), chat=chat)[0]


def test_a_forced_output_asks_for_the_token_that_was_written_and_no_more() -> None:
    forced = ForcedOutput([7, 8], 0.6)
    request = EngineRequest(np.array([5], np.int32), 2, ignore_eos=True, forced=forced)
    for logprobs in (0, 20):
        sent, _ = body_of(request, model="m", logprobs=logprobs, access=Access(), spell=None)
        assert (sent["vllm_xargs"], sent["logprobs"], sent["ignore_eos"]) == (forced.xargs(), 1, True)
