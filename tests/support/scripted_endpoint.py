"""A scripted server that somebody else runs: with a key, a model of its own name, and less than vLLM understands."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from kveval.measure.plan.plan import Plan
from kveval.tasks.assembly.tokenizer import StandInTokenizer
from support.scripted import Handler, Oracle, Reply, ScriptedServer

KEY = "sk-scripted-0123456789"
BOS = 7

# What a bare text-only server does not have.
BARE = frozenset(
    {"token_ids", "logprobs", "prompt_logprobs", "cache_salt", "return_token_ids", "streamed_usage", "metrics",
     "version", "chat", "heed"}
)  # fmt: skip


def answering(plan: Plan) -> Handler:
    """The oracle's answer to a sample, and a few words to a probe."""
    oracle = Oracle(plan)

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        try:
            return oracle(prompt, body)
        except KeyError:
            return Reply("a quiet harbour town")

    return handler


def tokenizer_of(plan: Plan) -> Callable[[str], list[int]]:
    """The ids that `plan` made a text of; of another text, the stand-in tokenizer's."""
    known = {plan.prompt_format.decode(sample.prompt.token_ids()): sample.prompt.token_ids() for sample in plan.samples}

    def tokenize(text: str) -> list[int]:
        ids = known[text] if text in known else StandInTokenizer().encode([text])[0].ids
        return [int(token) for token in ids]

    return tokenize


class ScriptedEndpoint(ScriptedServer):
    """
    Attributes:
        lacks: of `BARE`, and ``usage``, ``tools``, ``logprobs_by_id``; without ``heed`` it accepts any field and does
            nothing about it.
        api_key: wanted in every request; a wrong one is repeated in the answer, as some servers do.
        models: entries of /v1/models.
        answers_as: the model's name in answers; `streams_as`: in streams, if another.
        drops: how often a request with a field, or any ``GET``, has no answer: the connection is closed, or the answer
            is `drop_status`.
        adds_bos: puts a token in front of every text.
        rate_limits: answers 429 with these headers before it answers; taken one by one.
        redirects_to: answers with a redirect.
        authorizations: the header of every request.
    """

    def __init__(self, handler: Handler, *, lacks: Collection[str] = (), **options: Any) -> None:
        self.lacks = set(lacks)
        self.api_key: str | None = options.pop("api_key", None)
        self.tokenize: Callable[[str], list[int]] = options.pop("tokenize", lambda text: [ord(c) for c in text])
        super().__init__(handler, **options)
        self.models: list[dict[str, Any]] = [{"id": "served", "max_model_len": 1 << 20}]
        self.answers_as = "served"
        self.streams_as: str | None = None
        self.drops: dict[str, int] = {}
        self.drop_status: int | None = None
        self.adds_bos = False
        self.rate_limits: list[dict[str, str]] = []
        self.redirects_to: str | None = None
        self.authorizations: list[str | None] = []

    def _refusal(self, request: Request) -> Response | None:
        given = request.headers.get("authorization")
        self.authorizations.append(given)
        if request.method == "GET" and self.drops.get("GET"):
            self.drops["GET"] -= 1
            return _Dropped()
        if self.redirects_to:
            return RedirectResponse(self.redirects_to)
        if self.api_key and given != f"Bearer {self.api_key}":
            return JSONResponse({"error": {"message": f"Incorrect API key provided: {given}"}}, status_code=401)
        if self.rate_limits and request.method == "POST":
            headers = self.rate_limits.pop(0)
            return JSONResponse({"error": {"message": "too many requests"}}, status_code=429, headers=headers)
        return None

    async def _version(self, request: Request) -> Response:
        return self._refusal(request) or (_nothing() if "version" in self.lacks else await super()._version(request))

    async def _metrics(self, request: Request) -> Response:
        return self._refusal(request) or (_nothing() if "metrics" in self.lacks else await super()._metrics(request))

    async def _models(self, request: Request) -> Response:
        return self._refusal(request) or JSONResponse({"data": self.models})

    async def _completions(self, request: Request) -> Response:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        body = await request.json()
        for name, times in self.drops.items():
            if times and name in body:
                self.drops[name] -= 1
                if self.drop_status is not None:
                    return JSONResponse({"detail": "no luck"}, status_code=self.drop_status)
                return _Dropped()
        for name in ("cache_salt", "return_token_ids", "seed"):
            if name in self.lacks and name in body:
                return JSONResponse({"error": {"message": f"unknown field {name}"}}, status_code=400)
        if self.read is not None and "logprob_token_ids" in body:
            self._look_up(body["prompt"], body.get("cache_salt"))
            return PlainTextResponse(self.read(body), media_type="text/event-stream")
        if body.get("cache_salt") == "" and "heed" not in self.lacks:
            return JSONResponse({"error": {"message": "cache_salt must be a non-empty string"}}, status_code=400)
        if "messages" in body and body.get("stream"):
            self.requests.append(body)
            prompt = self.chat_prompt(body)
            stream = self._chat_stream(prompt, self.handler(prompt, body), body)
            return StreamingResponse(stream, media_type="text/event-stream")
        if "messages" in body:
            return self._chat_answer(body)
        prompt = body["prompt"]
        if isinstance(prompt, list) and "token_ids" in self.lacks:
            return JSONResponse({"detail": "prompt: input should be a valid string"}, status_code=422)
        if isinstance(prompt, str):
            prompt = [BOS] * self.adds_bos + self.tokenize(prompt)
        self.requests.append({**body, "prompt": prompt})
        reply = self.handler(prompt, body)
        if reply.status != 200:
            return JSONResponse({"error": {"message": reply.message}}, status_code=reply.status)
        if reply.raw is not None:
            return PlainTextResponse(reply.raw, media_type="application/json")
        events = self._events(prompt, reply, body)
        if body.get("stream"):
            return StreamingResponse(
                (f"data: {event if event == '[DONE]' else json.dumps(event)}\n\n" async for event in events),
                media_type="text/event-stream",
            )
        return JSONResponse(await self._whole(body, events))

    async def _events(self, prompt: list[int], reply: Reply, body: dict[str, Any]) -> AsyncIterator[Any]:
        async for line in self._stream(prompt, reply, body):
            data = line.removeprefix("data: ").strip()
            event = data if data == "[DONE]" else json.loads(data)
            if event == "[DONE]":
                yield event
                continue
            if "usage" in event and ("usage" in self.lacks or (body.get("stream") and "streamed_usage" in self.lacks)):
                continue
            for choice in event["choices"]:
                if not body.get("logprobs") or "logprobs" in self.lacks:
                    choice["logprobs"] = None
                elif "logprobs_by_id" in self.lacks and choice["text"]:
                    top = {choice["text"]: -0.1, "": -5.0}
                    choice["logprobs"] = {"tokens": [choice["text"]], "top_logprobs": [top]}
            name = self.streams_as if body.get("stream") else None
            yield event | {"model": name or self.answers_as}

    async def _whole(self, body: dict[str, Any], events: AsyncIterator[Any]) -> dict[str, Any]:
        answer: dict[str, Any] = {"model": self.answers_as, "choices": [{"text": "", "logprobs": None}]}
        choice = answer["choices"][0]
        async for event in events:
            if event == "[DONE]":
                continue
            if event.get("usage"):
                answer["usage"] = event["usage"] | {"completion_tokens": 3}
            for part in event["choices"]:
                choice["text"] += part["text"]
                choice["finish_reason"] = part["finish_reason"]
                for key, values in (part.get("logprobs") or {}).items():
                    choice["logprobs"] = choice["logprobs"] or {"tokens": [], "top_logprobs": []}
                    choice["logprobs"][key] += values
        if "prompt_logprobs" in body and "prompt_logprobs" not in self.lacks:
            choice["prompt_logprobs"] = [None, *({"1": {"logprob": self.perplexity_logprob}} for _ in range(20))]
        if body.get("return_token_ids") and "heed" not in self.lacks:
            choice["prompt_token_ids"] = self.requests[-1]["prompt"]
        return answer

    def _chat_answer(self, body: dict[str, Any]) -> Response:
        if "chat" in self.lacks:
            return _nothing()
        message: dict[str, Any] = {"role": "assistant", "content": "Cloudy."}
        if "tools" in body and "tools" not in self.lacks:
            message["tool_calls"] = [{"function": {"name": "report_weather", "arguments": '{"city": "Oslo"}'}}]
        return JSONResponse({"model": self.answers_as, "choices": [{"message": message, "finish_reason": "stop"}]})


@contextlib.asynccontextmanager
async def two_servers(handler: Handler) -> AsyncIterator[dict[str, ScriptedEndpoint]]:
    """A server of the baseline, f16, and one of the candidate, q8, with twice the capacity."""
    async with (
        ScriptedEndpoint(handler, cache_dtype="float16") as f16,
        ScriptedEndpoint(handler, cache_dtype="q8_0", capacity_tokens=2_000_000) as q8,
    ):
        yield {"f16": f16, "q8": q8}


class _Dropped(Response):
    """Closes the connection before the answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Without a beginning, the framework would answer with an error of its own.
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        raise ConnectionAbortedError("scripted")


def _nothing() -> Response:
    return PlainTextResponse("no such path", status_code=404)
