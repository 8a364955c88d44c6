"""Texts are read token by token on servers that have no plugin, and only where a server shows that it can be read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.forcing import reading
from support.scripted import Reply, ScriptedServer, always

from kveval.config.engine import RequestsConfig
from kveval.engines.client.access import Access
from kveval.engines.client.client import Client
from kveval.engines.client.dialect import Dialect
from kveval.engines.reading.reader import ForcedDecodeError
from kveval.engines.reading.stepwise import StepwiseDecoder

PROMPT = np.array([1, 2, 3], np.int32)
Read = Callable[[dict[str, Any]], str]


async def logprobs(read: Read, token_ids: list[int], max_in_flight: int = 8) -> list[float]:
    async with ScriptedServer(always(Reply("free"))) as server:
        server.read = read
        async with Client(server.base_url, "kveval", RequestsConfig(max_attempts=1), lambda: None) as client:
            return (await StepwiseDecoder(client, max_in_flight).logprobs(PROMPT, token_ids)).tolist()


async def check(read: Read | None, dialect: Dialect | None = None, **requests: Any) -> str | None:
    async with ScriptedServer(always(Reply("free"))) as server:
        server.read = read
        config = RequestsConfig(max_attempts=1, **requests)
        access = Access(dialect=dialect or Dialect())
        async with Client(server.base_url, "kveval", config, lambda: None, access=access) as client:
            return await StepwiseDecoder(client, 8).check(PROMPT, [5, 6, 7])


async def test_each_token_is_read_after_the_one_before_it_was_written() -> None:
    bodies = []

    def read(body: dict[str, Any]) -> str:
        bodies.append(body)
        return reading(lambda token: -token / 8)(body)

    assert await logprobs(read, [4, 2, 8]) == [-0.5, -0.25, -1.0]
    bodies.sort(key=lambda body: body["logprob_token_ids"] != [4])
    first, *others = bodies
    assert (first["prompt"], first["max_tokens"], "allowed_token_ids" in first) == ([1, 2, 3], 1, False)
    assert sorted((body["prompt"], body["allowed_token_ids"], body["logprob_token_ids"]) for body in others) == [
        ([1, 2, 3], [4], [2]),
        ([1, 2, 3, 4], [2], [8]),
    ]
    assert {body["max_tokens"] for body in others} == {2}
    assert all(body["ignore_eos"] for body in bodies)


async def test_a_token_that_the_model_excludes_has_probability_zero() -> None:
    [first, second] = await logprobs(reading(lambda token: -9999.0 if token == 2 else -1.0), [4, 2])
    assert (math.exp(first) > 0, math.exp(second)) == (True, 0.0)


@pytest.mark.parametrize(("options", "kind"), [({"obeys": False}, "not_forced"), ({"reads": False}, "no_result")])
async def test_what_was_not_read_has_no_probability(options: dict[str, Any], kind: str) -> None:
    with pytest.raises(ForcedDecodeError) as raised:
        await logprobs(reading(**options), [4, 2])
    assert raised.value.kind == kind


async def test_a_failed_request_keeps_its_kind() -> None:
    with pytest.raises(ForcedDecodeError) as raised:
        await logprobs(lambda _: 'data: {"error": {"message": "no"}}\n\n', [4])
    assert raised.value.kind == "http_500"


async def test_a_server_that_can_be_read_passes() -> None:
    assert await check(reading()) is None
    assert await check(reading(), logprobs=0) is None


@pytest.mark.parametrize(
    ("read", "dialect", "words"),
    [
        (None, Dialect(prompt="text"), "takes no token ids"),
        (None, Dialect(names_tokens_by="text"), "no logprobs by token id"),
        (None, Dialect(most_logprobs=0), "no logprobs"),
        (None, Dialect(), "does not say how probable a given token is"),
        (reading(obeys=False), Dialect(), "instead of one given token"),
        (reading(reads=False), Dialect(), "does not say how probable a given token is"),
        (reading(reported=lambda _: -1.5), Dialect(), "differ from those of an answer by 1 nats"),
        (lambda _: 'data: {"error": {"message": "unknown field"}}\n\n', Dialect(), "unknown field"),
    ],
)
async def test_a_server_that_cannot_be_read_says_why(read: Read | None, dialect: Dialect, words: str) -> None:
    assert words in str(await check(read, dialect))
