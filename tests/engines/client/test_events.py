"""What is read of event streams and whole answers, and of answers that do not end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import numpy as np
import pytest

from kveval.config.engine import RequestsConfig
from kveval.engines.client.client import Client
from kveval.engines.client.events import TooLongError, bound, read_events
from kveval.engines.client.failures import RequestFailedError
from kveval.engines.client.request import EngineRequest

STREAM = "text/event-stream; charset=utf-8"


async def read(content: str | bytes, content_type: str = STREAM, chunk_bytes: int | None = None) -> list[Any]:
    data = content.encode() if isinstance(content, str) else content

    async def chunks() -> AsyncIterator[bytes]:
        size = chunk_bytes or len(data)
        for start in range(0, len(data), size):
            yield data[start : start + size]

    response = httpx.Response(200, headers={"content-type": content_type}, content=chunks())
    return [event async for objects in read_events(response) for event in objects]


async def test_a_whole_answer_is_the_only_event() -> None:
    assert await read('{"a": 1}', "application/json") == [{"a": 1}]


async def test_a_stream_ends_at_done() -> None:
    assert await read('data: {"a": 1}\n\n: ping\n\ndata: [DONE]\n\ndata: {"b": 1}\n\n') == [{"a": 1}]


async def test_other_fields_of_a_stream_are_not_events() -> None:
    text = 'id: 1\nretry: 3000\n\n: keepalive\n\nevent: ping\n\ndata: {"a": 1}\n\ndata: [DONE]\n\n'
    assert await read(text) == [{"a": 1}]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
@pytest.mark.parametrize("chunk_bytes", [None, 1])
async def test_only_ascii_line_ends_cut_a_line(separator: str, chunk_bytes: int | None) -> None:
    """vLLM writes these characters as they are. `str.splitlines` would cut the event in two."""
    event = {"text": f"one{separator}two"}
    spelled = json.dumps(event, ensure_ascii=False) if ord(separator) > 0x7F else json.dumps(event)
    assert await read(f"data: {spelled}\n\ndata: [DONE]\n\n", chunk_bytes=chunk_bytes) == [event]


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("chunk_bytes", [None, 1, 7])
async def test_all_three_line_ends_of_the_standard_are_read(line_end: str, chunk_bytes: int | None) -> None:
    text = 'data: {"a": "\u00e9"}\n\ndata: {"b":\ndata: 2}\n\ndata: [DONE]\n\n'.replace("\n", line_end)
    assert await read(text, chunk_bytes=chunk_bytes) == [{"a": "\u00e9"}, {"b": 2}]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("chunk_bytes", [None, 1])
async def test_the_last_event_needs_no_blank_line(end: str, chunk_bytes: int | None) -> None:
    assert await read('data: {"a": 1}\n\ndata: {"b": 2}' + end, chunk_bytes=chunk_bytes) == [{"a": 1}, {"b": 2}]
    assert await read("data: [DONE]" + end) == []
    with pytest.raises(RequestFailedError, match="not JSON"):
        await read('data: {"a": 1}\n\ndata: {"b"' + end)


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n", " \n"])
async def test_events_without_blank_lines_between_them_are_read_one_by_one(line_end: str) -> None:
    lines = ['data: {"a": {"b": [1]}}', "data:", 'data: {"c":', "data: [2]}", "data: [DONE]", 'data: {"d": 3}', ""]
    assert await read(line_end.join(lines)) == [{"a": {"b": [1]}}, {"c": [2]}]
    with pytest.raises(RequestFailedError, match="out of memory"):
        await read(line_end.join([lines[0], 'data: {"error": "out of memory"}']))


@pytest.mark.parametrize(
    ("content", "content_type", "message"),
    [
        ("<html>", "text/html", "not JSON: <html>"),
        ("[1]", "application/json", "not an object"),
        ("null", "application/json", "not an object"),
        ("data: {broken\n\n", STREAM, "not JSON: {broken"),
        (b"data: \xff\n\n", STREAM, "not JSON"),
        ("data: " + "[" * 100_000 + "\n\n", STREAM, "not JSON"),
    ],
)
async def test_what_is_not_an_object_is_a_broken_stream(content: str | bytes, content_type: str, message: str) -> None:
    with pytest.raises(RequestFailedError, match=message) as caught:
        await read(content, content_type)
    assert (caught.value.kind, caught.value.retry) == ("broken_stream", True)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        ('data: {"error": {"message": "out of memory"}}\n\n', STREAM),
        ('data: {"object": "error", "message": "out of memory"}\n\n', STREAM),
        ('event: error\ndata: {"message": "out of memory"}\n\n', STREAM),
        ('{"error": {"message": "out of memory"}}', "application/json"),
        ('data: {"error": "out of memory"}\n\n', STREAM),
        ('data: {"error": true, "message": "out of memory"}\n\n', STREAM),
        ('data: {"errors": [{"msg": "out of memory"}]}\n\n', STREAM),
        ('data: {"detail": "out of memory"}\n\ndata: [DONE]\n\n', STREAM),
        ('data: {"detail": [{"loc": ["body"], "msg": "out of memory"}]}\n\n', STREAM),
        ('data: {"message": "out of memory", "code": 500}\n\n', STREAM),
        ('data: {"type": "error", "error": {"type": "overloaded_error", "message": "out of memory"}}\n\n', STREAM),
        ('data: {"choices": [{"error": {"message": "out of memory"}, "finish_reason": "error"}]}\n\n', STREAM),
        ('data: {"choices": [{"text": "x"}]}\n\n{"error": {"message": "out of memory"}}\n', STREAM),
        ("event: error\ndata: out of memory\n\n", STREAM),
        ('event: error\ndata: ["out of memory"]\n\n', STREAM),
        ('{"error": {"message": "out of memory"}}', STREAM),
        ('{"detail": "out of memory"}', "application/json"),
    ],
)
async def test_an_error_in_place_of_an_answer_is_the_servers(content: str, content_type: str) -> None:
    with pytest.raises(RequestFailedError, match="out of memory") as caught:
        await read(content, content_type)
    assert caught.value.kind == "http_500"


@pytest.mark.parametrize(
    "event",
    [
        '{"error": null, "choices": [{"text": "x", "error": null}]}',
        '{"message": null, "choices": []}',
        '{"choices": [], "usage": {"prompt_tokens": 3}}',
        '{"type": "ping"}',
    ],
)
async def test_what_is_no_error_is_an_event(event: str) -> None:
    assert await read(f"data: {event}\n\ndata: [DONE]\n\n") == [json.loads(event)]


async def test_an_event_with_a_name_of_its_own_may_describe_something_else() -> None:
    assert await read('event: progress\ndata: {"message": "3 of 9"}\n\n') == [{"message": "3 of 9"}]


async def test_an_error_without_words_is_shown_as_it_is() -> None:
    with pytest.raises(RequestFailedError, match=r'error in the answer: \{"object": "error", "code": 7\}'):
        await read('data: {"object": "error", "code": 7}\n\n')


async def test_a_whole_answer_may_come_under_the_name_of_a_stream() -> None:
    assert await read(': hello\n\n{"choices": []}') == [{"choices": []}]


async def test_stray_lines_beside_events_cost_nothing() -> None:
    assert await read('data: {"a": 1}\n\nstray\n\n') == [{"a": 1}]


REQUEST = EngineRequest(np.arange(1, 33, dtype=np.int32), 16)


@asynccontextmanager
async def endless(head: str, most_bytes: int) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that goes on for `most_bytes`: its address, and what it sent of each answer in bytes."""
    sent: list[int] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {head}\r\n\r\n".encode())
        sent.append(0)
        with suppress(ConnectionError):
            while sent[-1] < most_bytes:
                writer.write(b"y" * (1 << 16))
                await writer.drain()
                sent[-1] += 1 << 16
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", sent


async def test_of_an_error_without_end_only_the_beginning_is_read() -> None:
    async with (
        endless("500 no\r\ncontent-length: 200000000", 200_000_000) as (url, sent),
        Client(url, "kveval", RequestsConfig(max_attempts=2), lambda: None) as client,
    ):
        answer = await client.ask(REQUEST)
    assert (answer.error_kind, answer.attempts) == ("http_500", 2)
    assert answer.error_message == ("HTTP 500: " + "y" * 500)[:500]
    # What lies in the buffers of the connection was not read.
    assert all(size < 20_000_000 for size in sent)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_without_end_is_a_failure(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.events._MAX_ANSWER_BYTES", 1 << 20)
    async with (
        endless(f"200 OK\r\ncontent-type: {kind}", 200_000_000) as (url, sent),
        Client(url, "kveval", RequestsConfig(), lambda: None) as client,
    ):
        answer = await client.ask(REQUEST)
        assert await client.metrics_text() == ""
    assert (answer.error_kind, answer.attempts) == ("broken_stream", 1)
    assert answer.error_message == "the answer is longer than 1 MiB"
    assert all(size < 20_000_000 for size in sent)


async def test_an_event_of_many_lines_is_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line end does not end an event."""
    monkeypatch.setattr("kveval.engines.client.events._MAX_ANSWER_BYTES", 1 << 20)

    async def lines() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"data: yes\n" * 4096

    async def answer(_: httpx.Request) -> httpx.Response:
        response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=lines())
        await bound(response)
        return response

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        with pytest.raises(TooLongError, match="longer than 1 MiB"):
            await client.get("http://server")


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n", b"\r\r"])
async def test_the_end_of_an_event_is_seen_across_chunks(blank: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.events._MAX_ANSWER_BYTES", 100)

    async def bytes_of_events() -> AsyncIterator[bytes]:
        for byte in (b"data: a short event" + blank) * 50:
            yield bytes([byte])

    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=bytes_of_events())
    await bound(response)
    assert len(await response.aread()) > 100
