"""Reads the JSON objects of an answer, and bounds how much of it is read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent

from kveval.engines.client.failures import RequestFailedError, broken_stream

MAX_ERROR_BYTES = 1 << 16
_MAX_ANSWER_BYTES = 1 << 26
# From a stream's last event to the end of its body.
_END_SECONDS = 1.0
# A blank line ends an event of a stream.
_EVENT_END = re.compile(rb"\n\n|\r\r|\n\r\n")
# Lines that cannot belong to one JSON value.
_BETWEEN_OBJECTS = re.compile(r"(?<=[}\]])\s*\n\s*(?=[{\[])")


class TooLongError(httpx.TransportError):
    """A server's answer, or one event of a stream, is longer than any that was asked for."""


async def bound(response: httpx.Response) -> None:
    """Bounds the body of `response`. Use it as a response hook of httpx."""
    if isinstance(response.stream, httpx.AsyncByteStream):
        response.stream = _BoundedStream(response, response.stream)


def is_event_stream(response: httpx.Response) -> bool:
    return "text/event-stream" in response.headers.get("content-type", "").partition(";")[0]


class _BoundedStream(httpx.AsyncByteStream):
    """The beginning of an error; a whole answer or each event of a stream up to a limit."""

    def __init__(self, response: httpx.Response, stream: httpx.AsyncByteStream) -> None:
        self._is_error = response.status_code != httpx.codes.OK
        self._has_events = is_event_stream(response) and not self._is_error
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail = 0, b""
        async for chunk in self._stream:
            size += len(chunk)
            if self._has_events:
                # The end of an event may lie across two chunks.
                window = tail + chunk
                tail = window[-2:]
                ends = [match.end() for match in _EVENT_END.finditer(window)]
                size = len(window) - ends[-1] if ends else size
            if size > _MAX_ANSWER_BYTES:
                raise TooLongError(f"the answer is longer than {_MAX_ANSWER_BYTES >> 20} MiB")
            yield chunk
            if self._is_error and size >= MAX_ERROR_BYTES:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()


async def read_events(response: httpx.Response) -> AsyncIterator[list[dict[str, Any]]]:
    """Yields what each event of a stream holds up to its ``[DONE]``, or a whole answer as the only event.

    An event holds one object. If a server ends its events without a blank line, several objects arrive as one event.

    Raises:
        RequestFailedError: not JSON, not an object, or an error in place of an answer.
    """
    if not is_event_stream(response):
        yield [_object((await response.aread()).decode("utf-8", "replace"), is_error=False)]
        return
    headers = {"content-type": response.headers["content-type"]}
    events = EventSource(httpx.Response(response.status_code, headers=headers, content=_ended(response))).aiter_sse()
    async for event in events:
        texts = [text.strip() for text in _BETWEEN_OBJECTS.split(event.data)]
        before_done = list(itertools.takewhile(lambda text: text != "[DONE]", texts))
        objects = [_object(text, is_error=event.event == "error") for text in before_done if text]
        if objects:
            yield objects
        if len(before_done) < len(texts):
            await _read_to_end(events)
            return


async def _ended(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yields the body and a blank line, because some gateways leave out the one that ends the last event."""
    async for chunk in response.aiter_bytes():
        yield chunk
    yield b"\n\n"


async def _read_to_end(events: AsyncIterator[ServerSentEvent]) -> None:
    """Leaves the connection to the next request, if the body ends soon."""
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in events:
                pass


def _object(text: str, *, is_error: bool) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise broken_stream(f"not JSON: {text}") from error
    if not isinstance(found, dict):
        raise broken_stream(f"not an object: {text}")
    reported = found.get("error") or (found if is_error or found.get("object") == "error" else None)
    if reported:
        raise RequestFailedError("http_500", f"error in the answer: {reported}", retry=True)
    return found
