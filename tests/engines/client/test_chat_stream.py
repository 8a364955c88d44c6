from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scripted import Reply, always, serving

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.chat_stream import ChatOutput
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.reader import AnswerReader
from kveval.engines.client.request import EngineRequest
from kveval.tasks.sample import Chat

MESSAGES = (
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "content": "?"},
)
TOOL = {"type": "function", "function": {"name": "area", "description": "d", "parameters": {"type": "object"}}}
CHAT = Chat(MESSAGES, (TOOL,), template_kwargs={"enable_thinking": False})
REQUEST = EngineRequest(np.arange(3, dtype=np.int32), 16, cache_salt="cold", chat=CHAT)


async def ask(reply: Reply, request: EngineRequest = REQUEST, **config: Any) -> EngineAnswer:
    async with serving(always(reply), **config) as (client, _):
        return await client.ask(request)


async def test_what_is_sent() -> None:
    async with serving(always(Reply("a"))) as (client, server):
        await client.ask(REQUEST)
    assert server.requests == [
        {
            "model": "kveval", "messages": list(MESSAGES), "tools": [TOOL], "tool_choice": "auto", "max_tokens": 16,
            "temperature": 0.0, "seed": 0, "stream": True, "stream_options": {"include_usage": True},
            "logprobs": True, "top_logprobs": 20, "return_tokens_as_token_ids": True, "return_token_ids": True,
            "cache_salt": "cold", "chat_template_kwargs": {"enable_thinking": False},
        }
    ]  # fmt: skip
    async with serving(always(Reply("a")), logprobs=0) as (client, server):
        await client.ask(EngineRequest(REQUEST.token_ids, 16, stop=("\n",), chat=Chat(MESSAGES)))
    assert server.requests[0]["stop"] == ["\n"]
    unsaid = {"tools", "tool_choice", "logprobs", "top_logprobs", "cache_salt", "chat_template_kwargs", "prompt"}
    assert server.requests[0].keys().isdisjoint(unsaid)


async def test_a_plain_answer() -> None:
    answer = await ask(Reply("three short words"))
    assert (answer.error_kind, answer.text, answer.finish_reason) == (None, "three short words", "stop")
    assert (answer.prompt_tokens, answer.prompt_token_ids, answer.cached_tokens) == (3, [0, 1, 2], 0)
    assert answer.output_token_ids == [5, 6, 7, 8]
    assert answer.chunk_tokens == [1, 1, 1, 1]
    assert answer.top_ids == [[5, 1], [6, 1], [7, 1], [8, 1]]
    assert answer.top_logprobs == [[-0.1, -5.0]] * 4


async def test_calls_become_one_json_text() -> None:
    calls = (("area", '{"base": 10, "unit": "m²"}'), ("area", '{"base": 2.0}'))
    answer = await ask(Reply(tool_calls=calls))
    assert answer.finish_reason == "tool_calls"
    assert answer.text == (
        '[{"name": "area", "arguments": {"base": 10, "unit": "m²"}}, {"name": "area", "arguments": {"base": 2.0}}]'
    )
    assert len(answer.output_token_ids) == len(answer.top_ids) == 7


@pytest.mark.parametrize(("arguments", "kept"), [('{"base": ', '{"base": '), ("", {}), ("[1]", [1])])
async def test_arguments_that_are_no_object_are_kept_as_they_are(arguments: str, kept: Any) -> None:
    answer = await ask(Reply(tool_calls=(("area", arguments),)))
    assert json.loads(answer.text) == [{"name": "area", "arguments": kept}]


async def test_thinking_stands_before_the_answer() -> None:
    answer = await ask(Reply("the answer", reasoning="well then"))
    assert answer.text == "<think>wellthen</think>the answer"


async def test_under_a_forced_call_no_logprobs_are_asked_for_and_tokens_are_still_counted() -> None:
    forced = dataclasses.replace(REQUEST, chat=dataclasses.replace(CHAT, tool_choice="required"))
    async with serving(always(Reply(tool_calls=(("area", "{}"),)))) as (client, server):
        answer = await client.ask(forced)
    assert server.requests[0]["tool_choice"] == "required"
    assert server.requests[0].keys().isdisjoint({"logprobs", "top_logprobs"})
    assert answer.top_ids == []
    assert answer.output_token_ids == [5, 6, 7, 8]
    assert sum(answer.chunk_tokens) == 4


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=400, message='"auto" tool choice requires'), "bad_request"),
        (Reply("a", finish_reason=None), "broken_stream"),
        (Reply("a", logprob=None), "non_finite"),
        (Reply(raw='data: {"choices": [{"delta": {"tool_calls": [5]}}]}\n\n'), "broken_stream"),
        (Reply(raw='data: {"choices": [{"delta": {"content": 5}}]}\n\n'), "broken_stream"),
        (Reply(raw='data: {"choices": [], "prompt_token_ids": ["a"]}\n\n'), "broken_stream"),
    ],
)
async def test_what_a_server_can_do_wrong(reply: Reply, kind: str) -> None:
    assert (await ask(reply)).error_kind == kind


async def test_a_retry_leaves_nothing_of_the_first_attempt() -> None:
    half = 'data: {"choices": [{"delta": {"content": "half of an"}}]}\n\n'
    replies = iter([Reply(raw=half), Reply("a whole answer")])
    async with serving(always(Reply())) as (client, server):
        server.handler = lambda _prompt, _body: next(replies)
        answer = await client.ask(REQUEST)
    assert (answer.text, answer.attempts) == ("a whole answer", 2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["delta", "content", "reasoning", "tool_calls", "index", "function", "name", "arguments", "logprobs",
                 "token", "top_logprobs", "token_ids", "finish_reason"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(event=st.dictionaries(st.sampled_from(["choices", "usage", "prompt_token_ids"]), json_values))
def test_no_event_raises_anything_else(event: dict[str, Any]) -> None:
    output = ChatOutput()
    try:
        AnswerReader(EngineAnswer(), is_chat=True).take([event], 1.0)
    except RequestFailedError as error:
        assert error.kind == "broken_stream"  # noqa: PT017 - most events are fine
    assert isinstance(output.text, str)


def _part(arguments: object, name: str | None = None, **numbered: object) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function, **numbered}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(
            [_part("", "area", index=0, id="a"), _part('{"r": 1}', index=0),
             _part("", "area", index=1, id="b"), _part('{"r": 2}', index=1)],
            id="numbered from 0",
        ),
        pytest.param(
            [_part("", "area", index=0, id="a"), _part('{"r": 1}', index=0),
             _part("", "area", index=0, id="b"), _part('{"r": 2}', index=0)],
            id="every index 0",
        ),
        pytest.param(
            [_part("", "area", id="a"), _part('{"r": 1}'), _part("", "area", id="b"), _part('{"r": 2}')],
            id="no index",
        ),
        pytest.param(
            [_part("", "area", index=0), _part('{"r": 1}', index=0), _part('{"r": 2}', "area", index=0)],
            id="every index 0 and no ids",
        ),
        pytest.param(
            [_part("", "area", index=0, id="a"), _part('{"r"', index=0, id="x"), _part(": 1}", index=0, id="y"),
             _part("", "area", index=1, id="b"), _part('{"r": 2}', index=1, id="z")],
            id="another id for each part",
        ),
        pytest.param(
            [_part('{"r"', "area", index=0, id="a"), _part(": 1}", "area", index=0, id="a"),
             _part('{"r": 2}', "area", index=1, id="b")],
            id="name and id repeated",
        ),
        pytest.param([_part({"r": 1}, "area", index=0), _part({"r": 2}, "area", index=0)], id="arguments as objects"),
        pytest.param(
            [_part("", "area", index=0, id="a"), _part("", "area", index=1, id="b"),
             _part('{"r": 2}', index=1), _part('{"r": 1}', index=0)],
            id="parts of two calls in turn",
        ),
    ],
)  # fmt: skip
def test_two_streamed_calls_stay_two(parts: list[dict[str, Any]]) -> None:
    output = ChatOutput()
    for part in parts:
        output.completion_choice({"delta": {"tool_calls": [part]}})
    assert json.loads(output.text) == [{"name": "area", "arguments": {"r": number}} for number in (1, 2)]


def test_whole_calls_need_no_index() -> None:
    output = ChatOutput()
    calls = [_part('{"r": 1}', "area"), _part({"r": 2}, "area")]
    output.completion_choice({"message": {"tool_calls": calls}, "finish_reason": "tool_calls"})
    assert json.loads(output.text) == [{"name": "area", "arguments": {"r": number}} for number in (1, 2)]


def test_the_call_of_a_server_of_the_time_before_tools_is_read() -> None:
    streamed, whole = ChatOutput(), ChatOutput()
    for part in ({"name": "area", "arguments": ""}, {"arguments": '{"r": '}, {"arguments": "1}"}):
        streamed.completion_choice({"delta": {"function_call": part}})
    message = {"content": None, "function_call": {"name": "area", "arguments": {"r": 1}}}
    whole.completion_choice({"message": message, "finish_reason": "function_call"})
    assert json.loads(streamed.text) == json.loads(whole.text) == [{"name": "area", "arguments": {"r": 1}}]


def test_an_empty_part_after_arguments_as_an_object_changes_nothing() -> None:
    output = ChatOutput()
    for part in (_part({"r": 1}, "area", index=0, id="a"), _part("", index=0)):
        output.completion_choice({"delta": {"tool_calls": [part]}})
    assert json.loads(output.text) == [{"name": "area", "arguments": {"r": 1}}]


def test_a_content_of_parts_says_what_is_thought_and_what_is_said() -> None:
    output = ChatOutput()
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "it is 1"}]}
    output.completion_choice({"message": {"content": [thought, {"type": "text", "text": "It is 2."}]}})
    assert output.text == "<think>it is 1</think>It is 2."
