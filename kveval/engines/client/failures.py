"""Failures of one attempt to ask a server."""

from __future__ import annotations

import json

import httpx

from kveval.engines.client.replies import retry_after_s

_RETRIED_STATUS = (408, 429, 500, 502, 503, 504)


class RequestFailedError(Exception):
    """One attempt failed.

    Attributes:
        kind: what `EngineAnswer.error_kind` becomes.
        retry: another attempt may succeed.
        retry_after_s: the server asked to wait this long before the next attempt.
    """

    def __init__(self, kind: str, message: str, *, retry: bool, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry = retry
        self.retry_after_s = retry_after_s


def broken_stream(message: str) -> RequestFailedError:
    """The message holds the whole event: `Access.message` hides the key in it and cuts it afterwards."""
    return RequestFailedError("broken_stream", message, retry=True)


def http_failure(response: httpx.Response) -> RequestFailedError:
    """Says why a server refused. The message is whole: `Access.message` cuts it."""
    status = response.status_code
    message = body = response.content.decode("utf-8", "replace")
    try:
        data = json.loads(body)
        message = data.get("error", data).get("message", body)
    except (ValueError, AttributeError, RecursionError):
        pass
    kind = "bad_request" if status in (400, 413, 422) else f"http_{status}"
    return RequestFailedError(
        kind, f"HTTP {status}: {message}", retry=status in _RETRIED_STATUS, retry_after_s=retry_after_s(response)
    )
