"""Asks an OpenAI-compatible server, and notes when every part of its answer arrives."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping

import httpx
import tenacity

from kveval.config.engine import RequestsConfig
from kveval.engines.client.access import Access, AnswerForm, is_other_entry
from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.dialect import CHAT_COMPLETIONS, COMPLETIONS, Spell
from kveval.engines.client.events import TooLongError, arrival, is_event_stream, read_events
from kveval.engines.client.failures import RequestFailedError, RetryPolicy, http_failure
from kveval.engines.client.reader import AnswerReader, unicode
from kveval.engines.client.request import EngineRequest, body_of

_BACKOFF = tenacity.wait_exponential(multiplier=0.5, max=20) + tenacity.wait_random(0, 1)


class Client:
    """Asks one server.

    Args:
        exit_message: returns why the server is gone, or None. A dead server is not asked again.
        spell: turns token ids into text, for a server that takes no ids; see `body_of`.
        ids_by_text: returns ids by token text. Called only for a server that names tokens by text.
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
        self._served = self.access.served
        self._spell = spell
        self._ids_by_text = ids_by_text
        self._http = self.access.http(base_url, httpx.Timeout(config.timeout_s, connect=10.0))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(self, request: EngineRequest) -> EngineAnswer:
        """Returns the answer. Raises nothing that a server can cause: a failure is an answer with `error_kind`."""
        body, sent_tokens = body_of(
            request, model=self._model, logprobs=self._config.logprobs, access=self.access, spell=self._spell
        )
        content = json.dumps(body, separators=(",", ":")).encode()
        answer = EngineAnswer()
        retrying = self._retrying()
        attempts = 0
        try:
            async for attempt in retrying:
                with attempt:
                    attempts += 1
                    answer = EngineAnswer(attempts=attempts, sent_tokens=sent_tokens)
                    await self._attempt(content, answer, request)
        except RequestFailedError as error:
            answer.error_kind, answer.error_message = error.kind, unicode(self.access.message(error))
        answer.text = unicode(answer.text)
        return answer

    def _retrying(self) -> tenacity.AsyncRetrying:
        policy = RetryPolicy(self._config.max_attempts, self._config.timeout_s, _BACKOFF)
        return tenacity.AsyncRetrying(
            stop=policy.stop,
            wait=policy.wait,
            retry=tenacity.retry_if_exception(self._may_succeed_later),
            reraise=True,
        )

    def _may_succeed_later(self, error: BaseException) -> bool:
        return isinstance(error, RequestFailedError) and error.retry and self._exit_message() is None

    async def _attempt(self, content: bytes, answer: EngineAnswer, request: EngineRequest) -> None:
        dialect, is_chat = self.access.dialect, request.chat is not None
        reader = AnswerReader(
            answer,
            is_chat=is_chat,
            ids_by_text=self._ids_by_text() if dialect.names_tokens_by == "text" and self._config.logprobs else None,
            has_logprobs=dialect.most_logprobs != 0 and request.logprobs(self._config.logprobs) > 0,
            is_counted=dialect.is_counted,
            forced_tokens=request.max_output_tokens if request.ignore_eos else None,
        )
        answer.sent_at = time.time()
        started = time.perf_counter()
        try:
            # httpx's own timeouts bound each read only: a server that trickles tokens would never end.
            async with (
                asyncio.timeout(self._config.timeout_s),
                self._http.stream(
                    "POST",
                    CHAT_COMPLETIONS if is_chat else COMPLETIONS,
                    content=content,
                    headers={"content-type": "application/json"},
                ) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    await response.aread()
                    raise http_failure(response)
                async for objects in read_events(response):
                    reader.take(objects, (arrival(response) - started) * 1000)
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
        was_streamed = is_event_stream(response)
        self._check_model(answer, (CHAT_COMPLETIONS if is_chat else COMPLETIONS, was_streamed))
        reader.finish(was_streamed=was_streamed)

    def _hide_key(self, answer: EngineAnswer) -> None:
        text = self.access.data(answer.text)
        if text != answer.text:
            # The tokens spell the key as well.
            answer.text, answer.output_token_ids, answer.top_ids, answer.top_logprobs = text, [], [], []
        answer.finish_reason = answer.finish_reason and self.access.data(answer.finish_reason)
        answer.model = answer.model and self.access.data(answer.model)

    def _check_model(self, answer: EngineAnswer, form: AnswerForm) -> None:
        began_with = self.access.answers_as.get(form)
        if began_with is not None and answer.model not in (None, began_with):
            message = f"another model answers: {answer.model!r}, until now it was {began_with!r}"
            raise RequestFailedError("other_model", message, retry=False)

    async def other_model(self) -> str | None:
        """Says what an attached server serves now, if that is no longer the model it served at the start.

        Ask this after every answer and before you keep it: many servers answer to any model name.
        """
        if self._served is None:
            return None
        try:
            response = await self._http.get("/v1/models", timeout=10)
            models = response.json()
        except (httpx.HTTPError, ValueError):
            return None
        if response.status_code != httpx.codes.OK:
            return None
        served = self.access.entry_of(models, self._model)
        if served is None or is_other_entry(self._served, served):
            return f"the server's model changed from {dict(self._served)} to {served}"
        self._served = {**self._served, **served}
        return None

    async def perplexity(self, text: str) -> float:
        """Returns the perplexity of `text`. Raises RequestFailedError if the server gives no finite logprobs of it."""
        try:
            return await self._retrying()(self._perplexity, text)
        except RequestFailedError as error:
            raise RequestFailedError(error.kind, self.access.message(error), retry=False) from error

    async def _perplexity(self, text: str) -> float:
        body = {"model": self._model, "prompt": text, "max_tokens": 1, "temperature": 0.0}
        is_echoed = self.access.dialect.perplexity == "echo"
        wanted = {"echo": True, "logprobs": 1} if is_echoed else {"prompt_logprobs": 0}
        try:
            response = await self._http.post(COMPLETIONS, json=body | wanted)
        except httpx.HTTPError as error:
            raise RequestFailedError("connection", self._exit_message() or repr(error), retry=False) from error
        if response.status_code != httpx.codes.OK:
            raise http_failure(response)
        return _perplexity_of(response.content, is_echoed=is_echoed)

    async def metrics_text(self) -> str:
        """Returns the Prometheus text of /metrics. Empty if the server has none."""
        try:
            response = await self._http.get("/metrics", timeout=10)
        except httpx.HTTPError:
            return ""
        return response.text if response.status_code == httpx.codes.OK else ""

    async def is_healthy(self) -> bool:
        try:
            # Every OpenAI-compatible server lists its models. Not every server has vLLM's /health.
            path = "/health" if self.access.served is None else "/v1/models"
            return (await self._http.get(path, timeout=10)).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


def _perplexity_of(content: bytes, *, is_echoed: bool) -> float:
    """Returns the perplexity of the prompt that `content` answers."""
    try:
        whole = json.loads(content)
        choice = whole["choices"][0]
        if is_echoed:
            # The first token has no logprob. After the prompt may come the token that was generated.
            values = choice["logprobs"]["token_logprobs"][1 : whole["usage"]["prompt_tokens"]]
        else:
            values = [next(iter(row.values()))["logprob"] for row in choice["prompt_logprobs"] if row]
        result = math.exp(-sum(values) / len(values))
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, OverflowError, StopIteration) as error:
        raise RequestFailedError("non_finite", f"unusable prompt logprobs: {error!r}", retry=False) from error
    if not math.isfinite(result):
        raise RequestFailedError("non_finite", "the perplexity of plain text is not finite", retry=False)
    return result
