"""What is read of an answer that does not end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import numpy as np
import pytest

from kveval.config.engine import RequestsConfig
from kveval.engines.client.bounds import TooLongError, bound
from kveval.engines.client.client import Client
from kveval.engines.client.request import EngineRequest

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
    monkeypatch.setattr("kveval.engines.client.bounds._MAX_ANSWER_BYTES", 1 << 20)
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
    monkeypatch.setattr("kveval.engines.client.bounds._MAX_ANSWER_BYTES", 1 << 20)

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
    monkeypatch.setattr("kveval.engines.client.bounds._MAX_ANSWER_BYTES", 100)

    async def bytes_of_events() -> AsyncIterator[bytes]:
        for byte in (b"data: a short event" + blank) * 50:
            yield bytes([byte])

    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=bytes_of_events())
    await bound(response)
    assert len(await response.aread()) > 100
