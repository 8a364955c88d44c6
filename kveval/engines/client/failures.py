"""Failures of a request: what a reply or a broken connection says, and whether and when the request is sent again."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from tenacity import RetryCallState

_RETRIED_STATUS = (408, 429, 500, 502, 503, 504)
# Keys of an error whose values say what went wrong, the outermost first.
_DESCRIBES = ("error", "errors", "message", "detail", "details", "msg", "error_message", "error_msg", "reason",
              "title")  # fmt: skip


def retry_after_s(response: httpx.Response) -> float | None:
    """Returns the seconds that the header Retry-After asks for (RFC 9110, section 10.2.3). None without the header."""
    value = response.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def redirect_target(response: httpx.Response) -> str | None:
    """Returns where a redirect leads, without passwords and queries. None if the reply is not a redirect."""
    if not 300 <= response.status_code < 400:
        return None
    parts = urlsplit(response.headers.get("location", ""))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.path or "?"


def why_unreachable(error: httpx.HTTPError, base_url: str) -> str:
    """Says in a few words why a connection to `base_url` failed, and what may help."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or "not trusted"
        return f"its TLS certificate is not accepted ({reason}); use: its authority's certificate as endpoint.ca_file"
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        return "it does not speak TLS; use: http:// instead of https://"
    if isinstance(error, httpx.ConnectError):
        return f"nothing answers there ({text or type(error).__name__})"
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    if isinstance(error, httpx.ReadError | httpx.RemoteProtocolError) and base_url.startswith("http:"):
        return f"it breaks off ({text or type(error).__name__}); if the server speaks TLS, use: https://"
    return text or type(error).__name__


def why_unanswered(error: httpx.HTTPError) -> str:
    """Says in a few words what became of a request to a server that can be reached."""
    if isinstance(error, httpx.TimeoutException):
        return "it does not answer in time"
    return f"it closes the connection without an answer: {str(error) or type(error).__name__}"


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
    """Pass the whole event in `message`: `Access.message` hides the key in it and cuts it afterwards."""
    return RequestFailedError("broken_stream", message, retry=True)


def http_failure(response: httpx.Response) -> RequestFailedError:
    """Says why a server refused. The message is whole: `Access.message` cuts it."""
    status = response.status_code
    body = response.content.decode("utf-8", "replace")
    try:
        message = words_of(json.loads(body)) or body
    except (ValueError, RecursionError):
        message = body
    kind = "bad_request" if status in (400, 413, 422) else f"http_{status}"
    return RequestFailedError(
        kind, f"HTTP {status}: {message}", retry=status in _RETRIED_STATUS, retry_after_s=retry_after_s(response)
    )


def error_in(found: Mapping[str, Any], event: str = "message") -> str | None:
    """Returns what a server says in an error that it sends where an answer belongs. None for an answer.

    Args:
        event: the name of the event that held it. Events without a name are called ``message``.
    """
    is_error = event == "error"
    if found.get("error") or is_error or found.get("object") == "error" or found.get("type") == "error":
        return words_of(found) or json.dumps(found)
    choices = found.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping) and choice.get("error"):
            return words_of(choice) or json.dumps(choice)
    # FastAPI and many gateways only describe the error. Events with names of their own may describe something else.
    return words_of(found) or None if "choices" not in found and event == "message" else None


def words_of(error: Any) -> str:
    """Returns the text inside an error of any shape. Empty if there is none."""
    if isinstance(error, str):
        return error
    if isinstance(error, list):
        return "; ".join(filter(None, map(words_of, error)))
    if isinstance(error, Mapping):
        return next(filter(None, (words_of(error[key]) for key in _DESCRIBES if key in error)), "")
    return ""


class RetryPolicy:
    """Sends one request again after a failure, a few times, and waits as long as the server asks for.

    Args:
        max_attempts: failures after which the last one counts. Being asked to wait is not a failure.
        max_wait_s: limit of all waits that the server asked for (HTTP 429 or 503 with Retry-After).
        backoff: seconds before the next attempt if the server does not say.
    """

    def __init__(self, max_attempts: int, max_wait_s: float, backoff: Callable[[RetryCallState], float]) -> None:
        self._max_attempts = max_attempts
        self._max_wait_s = max_wait_s
        self._backoff = backoff
        self._failures = 0
        self._waited_s = 0.0

    def wait(self, state: RetryCallState) -> float:
        return max(_asked_to_wait(state), self._backoff(state))

    def stop(self, state: RetryCallState) -> bool:
        """Whether the last failure counts. tenacity calls it after `wait`."""
        if _asked_to_wait(state):
            self._waited_s += state.upcoming_sleep
            return self._waited_s > self._max_wait_s
        self._failures += 1
        return self._failures >= self._max_attempts


def _asked_to_wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return (error.retry_after_s or 0.0) if isinstance(error, RequestFailedError) else 0.0
