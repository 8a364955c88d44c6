"""One question, what came back, and how a server's events become it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from kveval.engines.client.chat_stream import ChatOutput
from kveval.tasks.task import Chat

T = TypeVar("T")

_TOKEN_PREFIX = "token_id:"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        token_ids: int32 [prompt_tokens].
        cache_salt: requests share prefix-cache blocks only with the same salt.
        chat: asks the chat endpoint for this in place of the token ids, which it makes itself.
        ignore_eos: the output ends at `max_output_tokens` and nowhere else.
    """

    token_ids: np.ndarray
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    cache_salt: str | None = None
    chat: Chat | None = None
    ignore_eos: bool = False


@dataclass(slots=True)
class Answer:
    """What came back, or why nothing did.

    Attributes:
        sent_at: Unix time in seconds of the attempt that counts.
        token_ms: arrival of each chunk, milliseconds after `sent_at`; `chunk_tokens` aligned with it.
        top_ids: one list of token ids per output token, most likely first; `top_logprobs` aligned with it.
        completion_tokens: of the output, as the server counted them.
        prompt_token_ids: what a chat endpoint made of its messages; None where it does not say.
        sent_tokens: prompt tokens that were sent, as we count them; None = those of the sample.
        model: what the server says answered.
        error_kind: bad_request, http_NNN, timeout, connection, broken_stream, aborted, non_finite, other_model or None.
    """

    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    output_token_ids: list[int] = field(default_factory=list)
    sent_at: float = 0.0
    total_ms: float = 0.0
    token_ms: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    top_ids: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    prompt_token_ids: list[int] | None = None
    sent_tokens: int | None = None
    model: str | None = None
    attempts: int = 1
    error_kind: str | None = None
    error_message: str = ""

    @property
    def ttft_ms(self) -> float | None:
        return self.token_ms[0] if self.token_ms else None

    @property
    def itl_ms(self) -> float | None:
        """Mean gap between the tokens after the first."""
        after_first = sum(self.chunk_tokens) - 1
        if after_first < 1 or len(self.token_ms) < 2:
            return None
        return (self.token_ms[-1] - self.token_ms[0]) / after_first

    @property
    def output_tokens(self) -> int:
        return sum(self.chunk_tokens) if self.chunk_tokens else self.completion_tokens or 0

    @property
    def is_refusal(self) -> bool:
        """Whether the server that was asked so far no longer answers us: it says so, or is another one."""
        return self.error_kind in ("http_401", "http_403", "other_model")

    @property
    def is_server_failure(self) -> bool:
        """Whether the server, not this one request, may be the cause."""
        return self.error_kind is not None and self.error_kind not in ("bad_request", "non_finite")


class RequestFailedError(Exception):
    """One attempt failed. `retry`: another may succeed; `retry_after_s`: not before the server said."""

    def __init__(self, kind: str, message: str, *, retry: bool, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry = retry
        self.retry_after_s = retry_after_s


def take(
    event: dict[str, Any],
    answer: Answer,
    elapsed_ms: float,
    chat: ChatOutput | None = None,
    is_every_chunk_a_token: bool = False,
) -> None:
    """Adds one event of a server's answer to `answer`; `chat` puts a chat endpoint's together.

    Raises:
        RequestFailedError: not what such a server sends.
    """
    try:
        if chat is not None and event.get("prompt_token_ids"):
            answer.prompt_token_ids = [int(token) for token in event["prompt_token_ids"]]
        answer.model = _optional(event.get("model"), str) or answer.model
        usage = event.get("usage")
        if usage:
            answer.prompt_tokens = _optional(usage.get("prompt_tokens"), int)
            answer.completion_tokens = _optional(usage.get("completion_tokens"), int)
            details = usage.get("prompt_tokens_details") or {}
            answer.cached_tokens = _optional(details.get("cached_tokens"), int)
        for spelled in event.get("choices") or ():
            choice = spelled if chat is None else chat.completion_choice(spelled)
            answer.text = answer.text + (choice.get("text") or "") if chat is None else chat.text
            answer.finish_reason = unicode(_optional(choice.get("finish_reason"), str) or "") or answer.finish_reason
            _take_tokens(choice, answer, elapsed_ms, is_every_chunk_a_token)
    except (AttributeError, TypeError, ValueError, LookupError, OverflowError) as error:
        raise RequestFailedError("broken_stream", f"unexpected answer: {str(event)[:200]}", retry=True) from error


def _take_tokens(choice: dict[str, Any], answer: Answer, elapsed_ms: float, is_every_chunk_a_token: bool) -> None:
    logprobs = choice.get("logprobs")
    tokens = logprobs["tokens"] if logprobs else []
    # Random tokens leave characters unfinished: such a chunk is a token without text.
    if tokens or choice.get("text") or is_every_chunk_a_token:
        answer.token_ms.append(round(elapsed_ms, 3))
        answer.chunk_tokens.append(max(len(tokens), 1))
    answer.output_token_ids += [_token_id(token) for token in tokens]
    for alternatives in (logprobs or {}).get("top_logprobs") or ():
        # JSON has no NaN: the engine writes null.
        values = {token: math.nan if value is None else float(value) for token, value in (alternatives or {}).items()}
        ranked = sorted(values.items(), key=lambda item: -item[1])
        answer.top_ids.append([_token_id(token) for token, _ in ranked])
        answer.top_logprobs.append([value for _, value in ranked])


def _token_id(token: str) -> int:
    number = int(token.removeprefix(_TOKEN_PREFIX))
    if not 0 <= number < 1 << 31:
        raise ValueError(f"{token} is no token id")
    return number


def unicode(text: str) -> str:
    """JSON can spell halves of surrogate pairs, which are no text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _optional(value: Any, kind: type[T]) -> T | None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value
