"""Reads the JSON objects of an answer: the events of a stream, or the one object of a whole answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent

from kveval.engines.client.bounds import is_event_stream
from kveval.engines.client.failures import RequestFailedError, broken_stream

# From a stream's last event to the end of its body.
_END_SECONDS = 1.0


async def read_events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yields every event of a server-sent event stream up to its ``[DONE]``, or a whole answer as the only event.

    Raises:
        RequestFailedError: not JSON, not an object, or an error in place of an answer.
    """
    if not is_event_stream(response):
        yield _object((await response.aread()).decode("utf-8", "replace"), is_error=False)
        return
    async for event in _until_done(response):
        if event.data.strip():
            yield _object(event.data.strip(), is_error=event.event == "error")


async def _until_done(response: httpx.Response) -> AsyncIterator[ServerSentEvent]:
    events = EventSource(response).aiter_sse()
    async for event in events:
        if event.data.strip() != "[DONE]":
            yield event
            continue
        # A response that is read to its end leaves its connection to the next request.
        with contextlib.suppress(TimeoutError, httpx.HTTPError):
            async with asyncio.timeout(_END_SECONDS):
                async for _ in events:
                    pass
        return


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
