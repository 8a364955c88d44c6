"""Decides whether and when one request is sent again."""

from __future__ import annotations

from collections.abc import Callable

from tenacity import RetryCallState

from kveval.engines.client.failures import RequestFailedError

Wait = Callable[[RetryCallState], float]


class RetryPolicy:
    """Sends one request again after a failure, a few times, and waits as long as the server asks for.

    Args:
        max_attempts: failures after which the last one counts. Being asked to wait is not a failure.
        max_wait_s: limit of all waits that the server asked for (HTTP 429 or 503 with Retry-After).
        backoff: seconds before the next attempt if the server does not say.
    """

    def __init__(self, max_attempts: int, max_wait_s: float, backoff: Wait) -> None:
        self._max_attempts = max_attempts
        self._max_wait_s = max_wait_s
        self._backoff = backoff
        self._failures = 0
        self._waited_s = 0.0

    def wait(self, state: RetryCallState) -> float:
        """Returns the seconds before the next attempt."""
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
