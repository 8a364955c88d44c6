"""Reads the JSON objects of an answer, and bounds how much of it is read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent

from kveval.engines.client.failures import RequestFailedError, broken_stream, error_in, words_of

MAX_ERROR_BYTES = 1 << 16
_MAX_ANSWER_BYTES = 1 << 26
# From a stream's last event to the end of its body.
_END_SECONDS = 1.0
# A blank line ends an event of a stream.
_EVENT_END = re.compile(rb"\n\n|\r\r|\n\r\n")
_EVENT_LINE = re.compile(r"(data|event|id|retry)?:|(data|event|id|retry)?\s*$")
# Of the end of a stream.
_KEPT_BYTES = 1 << 12
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
        self.read_at: float | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail = 0, b""
        async for chunk in self._stream:
            self.read_at = time.perf_counter()
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
        yield [_object((await response.aread()).decode("utf-8", "replace"))]
        return
    headers, body = {"content-type": response.headers["content-type"]}, _EventBody(response)
    events = EventSource(httpx.Response(response.status_code, headers=headers, content=aiter(body))).aiter_sse()
    has_events = False
    async for event in events:
        texts = [text.strip() for text in _BETWEEN_OBJECTS.split(event.data)]
        before_done = list(itertools.takewhile(lambda text: text != "[DONE]", texts))
        objects = [_object(text, event.event) for text in before_done if text]
        if objects:
            has_events = True
            yield objects
        if len(before_done) < len(texts):
            await _read_to_end(events)
            return
    beside = body.beside_events()
    if beside and not has_events:
        yield [_object(beside)]
    elif beside:
        with contextlib.suppress(ValueError, RecursionError):
            _refuse_error(json.loads(beside))


class _EventBody:
    """The body of an event stream. Remembers its end: some servers write an error there that is no event."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._end = b""
        self._is_cut = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_bytes():
            self._is_cut = self._is_cut or len(self._end) + len(chunk) > _KEPT_BYTES
            self._end = (self._end + chunk)[-_KEPT_BYTES:]
            yield chunk
        # Some gateways leave out the blank line that ends the last event.
        yield b"\n\n"

    def beside_events(self) -> str:
        """Returns the last lines of the body that belong to no event."""
        lines = re.split(r"\r\n|\r|\n", self._end.decode("utf-8", "replace"))[self._is_cut :]
        return "\n".join(line for line in lines if not _EVENT_LINE.match(line)).strip()


def arrival(response: httpx.Response) -> float:
    """Returns when the latest bytes of a response arrived, as `time.perf_counter` counts.

    Events that arrived together have one time, however long it takes to read each of them.
    """
    stream = response.stream
    read_at = stream.read_at if isinstance(stream, _BoundedStream) else None
    return time.perf_counter() if read_at is None else read_at


async def _read_to_end(events: AsyncIterator[ServerSentEvent]) -> None:
    """Leaves the connection to the next request, if the body ends soon."""
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in events:
                pass


def _object(text: str, event: str = "message") -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise (_in_the_answer(text) if event == "error" else broken_stream(f"not JSON: {text}")) from error
    if not isinstance(found, dict):
        raise _in_the_answer(words_of(found) or text) if event == "error" else broken_stream(f"not an object: {text}")
    _refuse_error(found, event)
    return found


def _refuse_error(found: Any, event: str = "message") -> None:
    said = error_in(found, event) if isinstance(found, Mapping) else None
    if said is not None:
        raise _in_the_answer(said)


def _in_the_answer(said: str) -> RequestFailedError:
    return RequestFailedError("http_500", f"error in the answer: {said}", retry=True)
