"""What is read of event streams and whole answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from kveval.engines.client.events import read_events
from kveval.engines.client.failures import RequestFailedError

STREAM = "text/event-stream; charset=utf-8"


async def read(content: str | bytes, content_type: str = STREAM, chunk_bytes: int | None = None) -> list[Any]:
    data = content.encode() if isinstance(content, str) else content

    async def chunks() -> AsyncIterator[bytes]:
        size = chunk_bytes or len(data)
        for start in range(0, len(data), size):
            yield data[start : start + size]

    response = httpx.Response(200, headers={"content-type": content_type}, content=chunks())
    return [event async for event in read_events(response)]


async def test_a_whole_answer_is_the_only_event() -> None:
    assert await read('{"a": 1}', "application/json") == [{"a": 1}]


async def test_a_stream_ends_at_done() -> None:
    assert await read('data: {"a": 1}\n\n: ping\n\ndata: [DONE]\n\ndata: {"b": 1}\n\n') == [{"a": 1}]


async def test_other_fields_of_a_stream_are_not_events() -> None:
    text = 'id: 1\nretry: 3000\n\n: keepalive\n\nevent: ping\n\ndata: {"a": 1}\n\ndata: [DONE]\n\n'
    assert await read(text) == [{"a": 1}]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
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
    ],
)
async def test_an_error_in_place_of_an_answer_is_the_servers(content: str, content_type: str) -> None:
    with pytest.raises(RequestFailedError, match="out of memory") as caught:
        await read(content, content_type)
    assert caught.value.kind == "http_500"
