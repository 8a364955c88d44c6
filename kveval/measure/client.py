"""One question to an OpenAI-compatible server, streamed, with raw timestamps."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import numpy as np
import tenacity

from kveval.config import RequestsConfig
from kveval.measure.chat_stream import CHAT_COMPLETIONS, COMPLETIONS, ChatOutput, chat_fields
from kveval.tasks.task import Chat

T = TypeVar("T")

_TOKEN_PREFIX = "token_id:"  # noqa: S105
_RETRIED_STATUS = (408, 429, 500, 502, 503, 504)
_BACKOFF = tenacity.wait_exponential(multiplier=0.5, max=20) + tenacity.wait_random(0, 1)
# Finish reasons of an output that the engine broke off itself.
_BROKEN_OFF = ("abort", "error")


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        token_ids: int32 [prompt_tokens].
        cache_salt: requests share prefix-cache blocks only with the same salt.
        chat: asks the chat endpoint for this in place of the token ids, which it makes itself.
    """

    token_ids: np.ndarray
    max_output_tokens: int
    stop: tuple[str, ...] = ()
    cache_salt: str | None = None
    chat: Chat | None = None


@dataclass(slots=True)
class Answer:
    """What came back, or why nothing did.

    Attributes:
        sent_at: Unix time in seconds of the attempt that counts.
        token_ms: arrival of each chunk, milliseconds after `sent_at`; `chunk_tokens` aligned with it.
        top_ids: one list of token ids per output token, most likely first; `top_logprobs` aligned with it.
        prompt_token_ids: what a chat endpoint made of its messages; None where it does not say.
        error_kind: bad_request, http_NNN, timeout, connection, broken_stream, aborted, non_finite or None.
    """

    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_token_ids: list[int] = field(default_factory=list)
    sent_at: float = 0.0
    total_ms: float = 0.0
    token_ms: list[float] = field(default_factory=list)
    chunk_tokens: list[int] = field(default_factory=list)
    top_ids: list[list[int]] = field(default_factory=list)
    top_logprobs: list[list[float]] = field(default_factory=list)
    prompt_token_ids: list[int] | None = None
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
    def is_server_failure(self) -> bool:
        """Whether the server, not this one request, may be the cause."""
        return self.error_kind is not None and self.error_kind not in ("bad_request", "non_finite")


class RequestFailedError(Exception):
    """One attempt failed. `retry`: another may succeed."""

    def __init__(self, kind: str, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry = retry


class Client:
    """Asks one server.

    Args:
        exit_message: why the server is gone, or None; a dead server is not asked again.
    """

    def __init__(
        self, base_url: str, model: str, config: RequestsConfig, exit_message: Callable[[], str | None]
    ) -> None:
        self._model = model
        self._config = config
        self._exit_message = exit_message
        self._http = httpx.AsyncClient(
            base_url=base_url,
            timeout=httpx.Timeout(config.timeout_s, connect=10.0),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
            # Without TLS there is nothing to verify, and loading the certificates takes a while.
            verify=base_url.startswith("https:"),
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    def body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_output_tokens,
            "temperature": 0.0,
            "seed": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.chat is not None:
            body |= chat_fields(request.chat, self._config.logprobs)
        else:
            body["prompt"] = request.token_ids.tolist()
            if self._config.logprobs:
                body |= {"logprobs": self._config.logprobs, "return_tokens_as_token_ids": True}
        if request.stop:
            body["stop"] = list(request.stop)
        if request.cache_salt:
            body["cache_salt"] = request.cache_salt
        return body

    async def ask(self, request: Request) -> Answer:
        """Never raises for what a server can do: a failure is an `Answer` with `error_kind`."""
        content = json.dumps(self.body(request), separators=(",", ":")).encode()
        answer = Answer()
        retrying = tenacity.AsyncRetrying(
            stop=tenacity.stop_after_attempt(self._config.max_attempts),
            wait=_BACKOFF,
            retry=tenacity.retry_if_exception(self._may_succeed_later),
            reraise=True,
        )
        attempts = 0
        try:
            async for attempt in retrying:
                with attempt:
                    attempts += 1
                    answer = Answer(attempts=attempts)
                    await self._attempt(content, answer, ChatOutput() if request.chat is not None else None)
        except RequestFailedError as error:
            answer.error_kind, answer.error_message = error.kind, _unicode(str(error))
        answer.text = _unicode(answer.text)
        return answer

    def _may_succeed_later(self, error: BaseException) -> bool:
        return isinstance(error, RequestFailedError) and error.retry and self._exit_message() is None

    async def _attempt(self, content: bytes, answer: Answer, chat: ChatOutput | None) -> None:
        answer.sent_at = time.time()
        started = time.perf_counter()
        try:
            # httpx's own timeouts bound each read only: a server that trickles tokens would never end.
            async with (
                asyncio.timeout(self._config.timeout_s),
                self._http.stream(
                    "POST",
                    COMPLETIONS if chat is None else CHAT_COMPLETIONS,
                    content=content,
                    headers={"content-type": "application/json"},
                ) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    message = (await response.aread())[:2000].decode("utf-8", "replace")
                    raise _http_failure(response.status_code, message)
                async for event in _events(response):
                    _take(event, answer, (time.perf_counter() - started) * 1000, chat)
        except (TimeoutError, httpx.TimeoutException) as error:
            message = f"no whole answer within {self._config.timeout_s:g} s"
            raise RequestFailedError("timeout", message, retry=True) from error
        except httpx.HTTPError as error:
            message = self._exit_message() or str(error) or type(error).__name__
            raise RequestFailedError("connection", message, retry=True) from error
        finally:
            answer.total_ms = (time.perf_counter() - started) * 1000
        if answer.finish_reason is None:
            raise RequestFailedError("broken_stream", "the stream ended without a finish_reason", retry=True)
        if answer.finish_reason in _BROKEN_OFF:
            message = f"the engine broke the output off (finish_reason {answer.finish_reason!r})"
            raise RequestFailedError("aborted", message, retry=True)
        if not all(math.isfinite(value) for row in answer.top_logprobs for value in row):
            raise RequestFailedError("non_finite", "the server returned non-finite logprobs", retry=False)

    async def perplexity(self, text: str) -> float:
        """Perplexity of `text` under the served model, from its prompt logprobs.

        Raises:
            RequestFailedError: no such answer, or a non-finite one.
        """
        body = {
            "model": self._model, "prompt": text, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0,
        }  # fmt: skip
        try:
            response = await self._http.post("/v1/completions", json=body)
        except httpx.HTTPError as error:
            raise RequestFailedError("connection", self._exit_message() or repr(error), retry=False) from error
        if response.status_code != httpx.codes.OK:
            raise _http_failure(response.status_code, response.text[:2000])
        try:
            rows = json.loads(response.content)["choices"][0]["prompt_logprobs"]
            values = [next(iter(row.values()))["logprob"] for row in rows if row]
            result = math.exp(-sum(values) / len(values))
        except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, OverflowError, StopIteration) as error:
            raise RequestFailedError("non_finite", f"unusable prompt logprobs: {error!r}", retry=False) from error
        if not math.isfinite(result):
            raise RequestFailedError("non_finite", "the perplexity of plain text is not finite", retry=False)
        return result

    async def metrics_text(self) -> str:
        """Prometheus text of /metrics; empty when the server has none."""
        try:
            response = await self._http.get("/metrics", timeout=10)
        except httpx.HTTPError:
            return ""
        return response.text if response.status_code == httpx.codes.OK else ""

    async def is_healthy(self) -> bool:
        try:
            return (await self._http.get("/health", timeout=10)).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


def _http_failure(status: int, body: str) -> RequestFailedError:
    message = body
    try:
        data = json.loads(body)
        message = data.get("error", data).get("message", body)
    except (ValueError, AttributeError):
        pass
    kind = "bad_request" if status in (400, 413, 422) else f"http_{status}"
    return RequestFailedError(kind, f"HTTP {status}: {str(message)[:500]}", retry=status in _RETRIED_STATUS)


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """JSON objects of a server-sent event stream, until its ``[DONE]``."""
    async for line in response.aiter_lines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        try:
            event = json.loads(data)
        except ValueError as error:
            raise RequestFailedError("broken_stream", f"not JSON: {data[:200]}", retry=True) from error
        if not isinstance(event, dict):
            raise RequestFailedError("broken_stream", f"not an object: {data[:200]}", retry=True)
        if event.get("error"):
            raise RequestFailedError("http_500", f"error in the stream: {str(event['error'])[:500]}", retry=True)
        yield event


def _take(event: dict[str, Any], answer: Answer, elapsed_ms: float, chat: ChatOutput | None = None) -> None:
    try:
        if chat is not None and event.get("prompt_token_ids"):
            answer.prompt_token_ids = [int(token) for token in event["prompt_token_ids"]]
        usage = event.get("usage")
        if usage:
            answer.prompt_tokens = _optional(usage.get("prompt_tokens"), int)
            details = usage.get("prompt_tokens_details") or {}
            answer.cached_tokens = _optional(details.get("cached_tokens"), int)
        for spelled in event.get("choices") or ():
            choice = spelled if chat is None else chat.completion_choice(spelled)
            answer.text = answer.text + (choice.get("text") or "") if chat is None else chat.text
            answer.finish_reason = _unicode(_optional(choice.get("finish_reason"), str) or "") or answer.finish_reason
            _take_tokens(choice, answer, elapsed_ms)
    except (AttributeError, TypeError, ValueError, LookupError, OverflowError) as error:
        raise RequestFailedError("broken_stream", f"unexpected answer: {str(event)[:200]}", retry=True) from error


def _take_tokens(choice: dict[str, Any], answer: Answer, elapsed_ms: float) -> None:
    logprobs = choice.get("logprobs")
    tokens = logprobs["tokens"] if logprobs else []
    if tokens or choice.get("text"):
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


def _unicode(text: str) -> str:
    """JSON can spell halves of surrogate pairs, which are no text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _optional(value: Any, kind: type[T]) -> T | None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{value!r} is not {kind.__name__}")
    return value
