"""One question to an OpenAI-compatible server, streamed, with raw timestamps."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import tenacity

from kveval.config.sweep import RequestsConfig
from kveval.engines.client.answer import Answer, Request, RequestFailedError, take, unicode
from kveval.engines.client.chat_stream import ChatOutput
from kveval.engines.client.request_body import body_of
from kveval.engines.client.retry import Patience
from kveval.engines.client.token_names import named_by_id
from kveval.engines.openai.access import Access, TooLongError, retry_after_s
from kveval.engines.openai.dialect import CHAT_COMPLETIONS, COMPLETIONS, Spell

_RETRIED_STATUS = (408, 429, 500, 502, 503, 504)
_BACKOFF = tenacity.wait_exponential(multiplier=0.5, max=20) + tenacity.wait_random(0, 1)
# Finish reasons of an output that the engine broke off itself.
_BROKEN_OFF = ("abort", "error")

# From a stream's last event to the end of its body.
_END_SECONDS = 1.0


class Client:
    """Asks one server.

    Args:
        exit_message: why the server is gone, or None; a dead server is not asked again.
        spell: token ids as text, for a server that takes nothing else; see `body_of`.
        ids_by_text: of tokens, for a server that names them by text; called when that is needed.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        config: RequestsConfig,
        exit_message: Callable[[], str | None],
        *,
        access: Access | None = None,
        spell: Spell | None = None,
        ids_by_text: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._model = model
        self._config = config
        self._exit_message = exit_message
        self.access = access or Access()
        self._spell = spell
        self._ids_by_text = ids_by_text
        self._http = self.access.http(base_url, httpx.Timeout(config.timeout_s, connect=10.0))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    def body(self, request: Request) -> tuple[dict[str, Any], int]:
        """What is sent for `request`, and how many prompt tokens the server should count."""
        return body_of(
            request,
            model=self._model,
            logprobs=self._config.logprobs,
            dialect=self.access.dialect,
            spell=self._spell,
            salt=self.access.cache_salt,
        )

    async def ask(self, request: Request) -> Answer:
        """Never raises for what a server can do: a failure is an `Answer` with `error_kind`."""
        body, sent_tokens = self.body(request)
        content = json.dumps(body, separators=(",", ":")).encode()
        answer = Answer()
        retrying = self._retrying()
        attempts = 0
        try:
            async for attempt in retrying:
                with attempt:
                    attempts += 1
                    answer = Answer(attempts=attempts, sent_tokens=sent_tokens)
                    await self._attempt(content, answer, request)
        except RequestFailedError as error:
            answer.error_kind, answer.error_message = error.kind, unicode(self.access.message(error))
        answer.text = unicode(answer.text)
        return answer

    def _retrying(self) -> tenacity.AsyncRetrying:
        patience = Patience(self._config.max_attempts, self._config.timeout_s, _BACKOFF)
        return tenacity.AsyncRetrying(
            stop=patience.stop,
            wait=patience.wait,
            retry=tenacity.retry_if_exception(self._may_succeed_later),
            reraise=True,
        )

    def _may_succeed_later(self, error: BaseException) -> bool:
        return isinstance(error, RequestFailedError) and error.retry and self._exit_message() is None

    async def _attempt(self, content: bytes, answer: Answer, request: Request) -> None:
        chat = ChatOutput() if request.chat is not None else None
        all_named = True
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
                    await response.aread()
                    raise _http_failure(response)
                async for event in _events(response) if self.access.dialect.streams else _whole(response, chat):
                    elapsed_ms = (time.perf_counter() - started) * 1000
                    all_named = self._take(event, answer, elapsed_ms, chat, request) and all_named
        except (TimeoutError, httpx.TimeoutException) as error:
            message = f"no whole answer within {self._config.timeout_s:g} s"
            raise RequestFailedError("timeout", message, retry=True) from error
        except TooLongError as error:
            raise RequestFailedError("broken_stream", str(error), retry=False) from error
        except httpx.HTTPError as error:
            message = self._exit_message() or str(error) or type(error).__name__
            raise RequestFailedError("connection", message, retry=True) from error
        finally:
            answer.total_ms = (time.perf_counter() - started) * 1000
            self._hide_key(answer)
        if not all_named:
            answer.output_token_ids, answer.top_ids, answer.top_logprobs = [], [], []
        if not self.access.dialect.streams:
            answer.token_ms, answer.chunk_tokens = [], []
        self._check_answering(answer)
        if answer.finish_reason is None:
            raise RequestFailedError("broken_stream", "the stream ended without a finish_reason", retry=True)
        if answer.finish_reason in _BROKEN_OFF:
            message = f"the engine broke the output off (finish_reason {answer.finish_reason!r})"
            raise RequestFailedError("aborted", message, retry=True)
        if not all(math.isfinite(value) for row in answer.top_logprobs for value in row):
            raise RequestFailedError("non_finite", "the server returned non-finite logprobs", retry=False)

    def _take(
        self, event: dict[str, Any], answer: Answer, elapsed_ms: float, chat: ChatOutput | None, request: Request
    ) -> bool:
        """`take`, and whether every token has an id."""
        named, all_named = event, True
        try:
            if self.access.dialect.names_tokens_by == "text":
                named, all_named = named_by_id(event, self._ids_by_text())
            take(named, answer, elapsed_ms, chat, request.ignore_eos)
        except (RequestFailedError, AttributeError, TypeError, LookupError) as error:
            # The whole event: the message of `take` is cut, maybe amid the key.
            raise RequestFailedError("broken_stream", f"unexpected answer: {event}", retry=True) from error
        return all_named

    def _hide_key(self, answer: Answer) -> None:
        text = self.access.data(answer.text)
        if text != answer.text:
            # Tokens spell it as well.
            answer.text, answer.output_token_ids, answer.top_ids, answer.top_logprobs = text, [], [], []
        answer.finish_reason = answer.finish_reason and self.access.data(answer.finish_reason)
        answer.model = answer.model and self.access.data(answer.model)

    def _check_answering(self, answer: Answer) -> None:
        began_with = self.access.answers_as
        if began_with is not None and answer.model not in (None, began_with):
            message = f"another model answers: {answer.model!r}, until now it was {began_with!r}"
            raise RequestFailedError("other_model", message, retry=False)

    async def other_model(self) -> str | None:
        """What a server that is not ours serves in place of the model the variant was begun with; None: nothing else.

        Asked after every answer, before it is kept: many servers answer to any name.
        """
        if self.access.served is None:
            return None
        try:
            response = await self._http.get("/v1/models", timeout=10)
            models = response.json()
        except (httpx.HTTPError, ValueError):
            return None
        served = (
            self.access.entry_of(models, self._model) if response.status_code == httpx.codes.OK else self.access.served
        )
        if served == self.access.served:
            return None
        return f"the server's model changed from {dict(self.access.served)} to {served}"

    async def perplexity(self, text: str) -> float:
        """Perplexity of `text` under the served model, from its logprobs.

        Raises:
            RequestFailedError: no such answer, or a non-finite one.
        """
        try:
            return await self._retrying()(self._perplexity, text)
        except RequestFailedError as error:
            raise RequestFailedError(error.kind, self.access.message(error), retry=False) from error

    async def _perplexity(self, text: str) -> float:
        echoed = self.access.dialect.perplexity == "echo"
        how = {"echo": True, "logprobs": 1} if echoed else {"prompt_logprobs": 0}
        body = {"model": self._model, "prompt": text, "max_tokens": 1, "temperature": 0.0, **how}
        try:
            response = await self._http.post("/v1/completions", json=body)
        except httpx.HTTPError as error:
            raise RequestFailedError("connection", self._exit_message() or repr(error), retry=False) from error
        if response.status_code != httpx.codes.OK:
            raise _http_failure(response)
        try:
            whole = json.loads(response.content)
            choice = whole["choices"][0]
            if echoed:
                # The first token has no logprob; the one that was generated may follow.
                values = choice["logprobs"]["token_logprobs"][1 : whole["usage"]["prompt_tokens"]]
            else:
                values = [next(iter(row.values()))["logprob"] for row in choice["prompt_logprobs"] if row]
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
            # Every OpenAI-compatible server lists its models; not every one has vLLM's /health.
            path = "/health" if self.access.served is None else "/v1/models"
            return (await self._http.get(path, timeout=10)).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


# The messages below are whole: `Access.message` cuts them.
def _http_failure(response: httpx.Response) -> RequestFailedError:
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


async def _whole(response: httpx.Response, chat: ChatOutput | None) -> AsyncIterator[dict[str, Any]]:
    """An answer that came in one piece, as the only event of a stream."""
    content = await response.aread()
    try:
        event = json.loads(content)
        if chat is not None:
            event = event | {"choices": [chat.whole_choice(choice) for choice in event["choices"]]}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise RequestFailedError("broken_stream", f"not an answer: {content!r}", retry=True) from error
    yield event


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """JSON objects of a server-sent event stream, until its ``[DONE]``."""
    lines = response.aiter_lines()
    async for line in lines:
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            # Read to its end, the response leaves its connection to the next request.
            with contextlib.suppress(TimeoutError, httpx.HTTPError):
                async with asyncio.timeout(_END_SECONDS):
                    async for _ in lines:
                        pass
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RequestFailedError("broken_stream", f"not JSON: {data}", retry=True) from error
        if not isinstance(event, dict):
            raise RequestFailedError("broken_stream", f"not an object: {data}", retry=True)
        if event.get("error"):
            raise RequestFailedError("http_500", f"error in the stream: {event['error']}", retry=True)
        yield event
