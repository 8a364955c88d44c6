"""How often and how late one request is sent again."""

from __future__ import annotations

from collections.abc import Callable

from tenacity import RetryCallState

Wait = Callable[[RetryCallState], float]


class Patience:
    """Of one request: failures are tried again a few times; a server that names the time to wait is given it.

    Args:
        max_attempts: requests that fail before the last failure counts.
        most_seconds: waited in all because the server said so (HTTP 429 or 503 with Retry-After).
        backoff: seconds before the next attempt otherwise.
    """

    def __init__(self, max_attempts: int, most_seconds: float, backoff: Wait) -> None:
        self._max_attempts = max_attempts
        self._most_seconds = most_seconds
        self._backoff = backoff
        self._failures = 0
        self._waited_seconds = 0.0

    def wait(self, state: RetryCallState) -> float:
        """Seconds to the next attempt."""
        return max(_asked_to_wait(state), self._backoff(state))

    def stop(self, state: RetryCallState) -> bool:
        """Whether the failure counts; called after `wait`."""
        if _asked_to_wait(state):
            self._waited_seconds += state.upcoming_sleep
            return self._waited_seconds > self._most_seconds
        self._failures += 1
        return self._failures >= self._max_attempts


def _asked_to_wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return getattr(error, "retry_after_s", None) or 0.0
