"""Bounds what is read of an answer, so that a server that never ends one cannot fill the memory."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx

MAX_ERROR_BYTES = 1 << 16
_MAX_ANSWER_BYTES = 1 << 26
# A blank line ends an event of a stream.
_EVENT_END = re.compile(rb"\n\n|\r\r|\n\r\n")


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
