"""A scripted OpenAI-compatible server: real HTTP, answers from a function. For tests of kveval's own logic only."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kveval.config.engine import RequestsConfig
from kveval.engines.base import OnStatus, ServerPlan
from kveval.engines.client.access import Access
from kveval.engines.client.client import Client
from kveval.engines.plugin.emulation import EmulationSpec, coverage_line, live_line, requested_line
from kveval.engines.process import free_port
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm import facts as engine_facts
from kveval.engines.vllm.findings import judge_facts
from kveval.errors import EngineError
from kveval.measure.plan.plan import Plan
from kveval.run.facts import Facts, Finding
from kveval.tasks.sample import Sample


@dataclass
class Reply:
    """What one request gets.

    Attributes:
        logprob: of every token; NaN is sent as such, None as null.
        hang: the server accepts the request and never answers, and is not healthy while it does not.
        die: the server goes away in the middle of the answer.
        collects: a proxy sends all events when the last one is there.
        empty_first: the stream begins at once, with an event that holds no token.
        tokens_per_word: what the server counts. With more than one, it does not name them.
        raw: sent as the whole event stream; `media_type`: its content type.
        prompt_tokens: what the server says it saw; None = the truth.
        tool_calls: (name, arguments as text) of each call of a chat answer, in place of `text`.
        reasoning: what a chat answer thinks before it.
    """

    text: str = ""
    finish_reason: str | None = "stop"
    status: int = 200
    message: str = "scripted failure"
    logprob: float | None = -0.1
    delay_s: float = 0.0
    token_delay_s: float = 0.0
    collects: bool = False
    empty_first: bool = False
    tokens_per_word: int = 1
    hang: bool = False
    die: bool = False
    raw: str | None = None
    media_type: str = "text/event-stream"
    prompt_tokens: int | None = None
    tool_calls: tuple[tuple[str, str], ...] = ()
    reasoning: str = ""


Handler = Callable[[list[int], dict[str, Any]], Reply]


async def _collected(stream: AsyncIterator[str]) -> AsyncIterator[str]:
    yield "".join([event async for event in stream])


def always(reply: Reply) -> Handler:
    return lambda _prompt, _body: reply


def _json(value: Any, status_code: int = 200) -> Response:
    """Starlette's own response knows neither NaN nor half a surrogate pair."""
    return Response(json.dumps(value), status_code, media_type="application/json")


class ScriptedServer:
    """Answers /v1/completions and /v1/chat/completions from `handler`.

    Attributes:
        chat_prompt: prompt token ids of a chat request's body.
        requests: every request body it saw.
        tls: (key file, certificate file) of a server that speaks HTTPS.
        page_of_metrics: what it sends in place of the right text of /metrics.
        perplexity_logprob: of every token of a text whose perplexity is asked.
        forgets: nothing comes from the prefix cache.
        force: answers requests whose output is forced; `read`: those that name a token to read. See `support.forcing`.
        speculative_tokens: of each draft; 0: it does not speculate. For every prompt token it counts `drafts` of them,
            and `accepted` by position.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        cache_dtype: str = "bfloat16",
        capacity_tokens: int = 1_000_000,
        perplexity_logprob: float | None = -3.0,
        version: str = "scripted",
        forgets: bool = False,
        chat_prompt: Callable[[dict[str, Any]], list[int]] | None = None,
        speculative_tokens: int = 0,
        drafts: int = 4,
        accepted: tuple[int, ...] = (),
    ) -> None:
        self.handler = handler
        self.speculative_tokens, self.drafts, self.accepted = speculative_tokens, drafts, accepted
        self.cache_dtype = cache_dtype
        self.capacity_tokens = capacity_tokens
        self.perplexity_logprob = perplexity_logprob
        self.version = version
        self.forgets = forgets
        self.requests: list[dict[str, Any]] = []
        self.running = self.most_running = self.hanging = 0
        self.prompt_tokens = 0
        self.cached: set[int] = set()
        self.prefix_cache_hits = self.prefix_cache_queries = 0
        self.died = False
        self.max_model_len = 1 << 20
        self.chat_prompt = chat_prompt or (lambda body: list(range(len(body["messages"]))))
        self.force: Callable[[dict[str, Any]], str] | None = None
        self.read: Callable[[dict[str, Any]], str] | None = None
        self.tls: tuple[str, str] | None = None
        self.page_of_metrics: Callable[[str], Response] = PlainTextResponse
        self.port = 0
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def base_url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    @property
    def asked(self) -> list[list[int]]:
        """Prompts of the requests that were no smoke questions."""
        return [self._prompt(body) for body in self.requests if "cache_salt" not in body]

    def _prompt(self, body: dict[str, Any]) -> list[int]:
        return body["prompt"] if "prompt" in body else self.chat_prompt(body)

    async def __aenter__(self) -> ScriptedServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        app = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/version", self._version),
                Route("/metrics", self._metrics),
                Route("/v1/models", self._models),
                Route("/v1/completions", self._completions, methods=["POST"]),
                Route("/v1/chat/completions", self._completions, methods=["POST"]),
            ]
        )
        self.died = False
        self.prompt_tokens = self.prefix_cache_hits = self.prefix_cache_queries = 0
        self.cached.clear()
        self.port = self.port or free_port()
        key, certificate = self.tls or (None, None)
        config = uvicorn.Config(
            app, port=self.port, log_level="critical", timeout_graceful_shutdown=1, lifespan="off", ssl_keyfile=key,
            ssl_certfile=certificate,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            # At once: the server itself looks for its end every 100 ms only.
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._server.force_exit = True
            await self._server.shutdown()
            self._server = None

    @property
    def is_up(self) -> bool:
        return self._server is not None

    async def _health(self, _: Request) -> Response:
        return PlainTextResponse("", status_code=503 if self.died or self.hanging else 200)

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": self.version})

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "kveval", "max_model_len": self.max_model_len}]})

    async def _metrics(self, _: Request) -> Response:
        return self.page_of_metrics(
            f'vllm:cache_config_info{{block_size="16",cache_dtype="{self.cache_dtype}",enable_prefix_caching="True",'
            f'kv_cache_size_tokens="{self.capacity_tokens}",kv_cache_dtype_skip_layers="[]"}} 1.0\n'
            "# TYPE vllm:prompt_tokens_total counter\n"
            f"vllm:prompt_tokens_total {self.prompt_tokens}\n"
            "# TYPE vllm:prefix_cache_queries_total counter\n"
            f"vllm:prefix_cache_queries_total {self.prefix_cache_queries}\n"
            "# TYPE vllm:prefix_cache_hits_total counter\n"
            f"vllm:prefix_cache_hits_total {self.prefix_cache_hits}\n"
            "# TYPE vllm:num_preemptions_total counter\n"
            "vllm:num_preemptions_total 0\n"
            "# TYPE vllm:num_requests_running gauge\n"
            f"vllm:num_requests_running {self.running}\n"
            "# TYPE vllm:num_requests_waiting gauge\n"
            "vllm:num_requests_waiting 0\n"
            "# TYPE vllm:kv_cache_usage_perc gauge\n"
            f"vllm:kv_cache_usage_perc {self.running / 100}\n" + self._speculation()
        )

    def _speculation(self) -> str:
        if not self.speculative_tokens:
            return ""
        prefix, drafts = "vllm:spec_decode_num", self.drafts * self.prompt_tokens
        at = [*self.accepted, *[0] * self.speculative_tokens][: self.speculative_tokens]
        totals = {"drafts": drafts, "draft_tokens": drafts * self.speculative_tokens,
                  "accepted_tokens": sum(at) * self.prompt_tokens}  # fmt: skip
        lines = [f"# TYPE {prefix}_{key}_total counter\n{prefix}_{key}_total {total}" for key, total in totals.items()]
        lines.append(f"# TYPE {prefix}_accepted_tokens_per_pos_total counter")
        lines += [
            f'{prefix}_accepted_tokens_per_pos_total{{position="{place}"}} {count * self.prompt_tokens}'
            for place, count in enumerate(at)
        ]
        return "\n".join(lines) + "\n"

    async def _completions(self, request: Request) -> Response:
        body = await request.json()
        if "prompt_logprobs" in body:
            rows = [None, *({"1": {"logprob": self.perplexity_logprob}} for _ in range(20))]
            return _json({"choices": [{"text": "", "prompt_logprobs": rows}]})
        if self.force is not None and "vllm_xargs" in body:
            return PlainTextResponse(self.force(body), media_type="text/event-stream")
        if self.read is not None and "logprob_token_ids" in body:
            self._look_up(body["prompt"], body.get("cache_salt"))
            return PlainTextResponse(self.read(body), media_type="text/event-stream")
        self.requests.append(body)
        prompt = self._prompt(body)
        reply = self.handler(prompt, body)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(reply.delay_s)
            await self._hang(request, reply)
        finally:
            self.running -= 1
        if self.died:
            return PlainTextResponse("gone", status_code=500)
        if reply.status != 200:
            return _json({"error": {"message": reply.message}}, status_code=reply.status)
        if reply.raw is not None:
            return PlainTextResponse(reply.raw, media_type=reply.media_type)
        self.prompt_tokens += len(prompt)
        stream = self._chat_stream(prompt, reply, body) if "messages" in body else self._stream(prompt, reply, body)
        return StreamingResponse(_collected(stream) if reply.collects else stream, media_type="text/event-stream")

    async def _hang(self, request: Request, reply: Reply) -> None:
        if not reply.hang:
            return
        self.hanging += 1
        while not await request.is_disconnected():  # noqa: ASYNC110 - nor for this
            await asyncio.sleep(0.02)

    async def _stream(self, prompt: list[int], reply: Reply, body: dict[str, Any]) -> AsyncIterator[str]:
        pieces = [piece + " " for piece in reply.text.split(" ")] if reply.text else [""]
        pieces[-1] = pieces[-1].removesuffix(" ")
        if reply.empty_first:
            yield f"data: {json.dumps({'choices': [{'text': '', 'finish_reason': None, 'logprobs': None}]})}\n\n"
        for position, piece in enumerate(pieces):
            if reply.die:
                self.died = True
                raise ConnectionResetError("scripted death")
            await asyncio.sleep(reply.token_delay_s)
            token = f"token_id:{sum(piece.encode()) % 997}"
            last = position == len(pieces) - 1
            choice = {
                "text": piece,
                "finish_reason": reply.finish_reason if last else None,
                "logprobs": {
                    "tokens": [token] if piece else [],
                    "top_logprobs": [{token: reply.logprob, "token_id:1": -5.0}] if piece else [],
                }
                if reply.tokens_per_word == 1
                else None,
            }
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        async for event in self._end(prompt, reply, body, len(pieces) * reply.tokens_per_word):
            yield event

    async def _chat_stream(self, prompt: list[int], reply: Reply, body: dict[str, Any]) -> AsyncIterator[str]:
        first = {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
        yield f"data: {json.dumps(first | {'prompt_token_ids': prompt})}\n\n"
        deltas: list[dict[str, Any]] = [{"reasoning": piece} for piece in reply.reasoning.split()]
        for index, (name, arguments) in enumerate(reply.tool_calls):
            deltas.append({"tool_calls": [{"index": index, "id": "1", "type": "function", "function": {"name": name}}]})
            halves = arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": half}}]} for half in halves]
        if not reply.tool_calls:
            deltas += [{"content": piece} for piece in reply.text.partition(" ") if piece]
        # Control tokens of a call reach the stream as tokens without a delta.
        deltas.append({})
        for position, delta in enumerate(deltas):
            token = f"token_id:{position + 5}"
            alternatives = [{"token": token, "logprob": reply.logprob}, {"token": "token_id:1", "logprob": -5.0}]
            logprobs = {"content": [{"token": token, "logprob": reply.logprob, "top_logprobs": alternatives}]}
            last = position == len(deltas) - 1
            reason = "tool_calls" if reply.tool_calls and reply.finish_reason == "stop" else reply.finish_reason
            choice = {
                "delta": delta,
                "finish_reason": reason if last else None,
                "logprobs": logprobs if body.get("logprobs") else None,
                "token_ids": [position + 5],
            }
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        async for event in self._end(prompt, reply, body, len(deltas)):
            yield event

    async def _end(
        self, prompt: list[int], reply: Reply, body: dict[str, Any], output_tokens: int
    ) -> AsyncIterator[str]:
        seen = len(prompt) if reply.prompt_tokens is None else reply.prompt_tokens
        usage = {
            "prompt_tokens": seen,
            "completion_tokens": output_tokens,
            "prompt_tokens_details": {"cached_tokens": self._look_up(prompt, body.get("cache_salt"))},
        }
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"

    def _look_up(self, prompt: list[int], salt: str | None) -> int:
        """Tokens of whole blocks that were seen before, under the same salt; all are kept."""
        blocks = [hash((salt, *prompt[:end])) for end in range(16, len(prompt), 16)]
        found = next((index for index, block in enumerate(blocks) if block not in self.cached), len(blocks)) * 16
        self.cached.update(() if self.forgets else blocks)
        self.prefix_cache_queries += len(prompt)
        self.prefix_cache_hits += found
        return found


@dataclass
class ScriptedEngine:
    """A `ScriptedServer` where kveval expects an engine."""

    variant: ResolvedVariant
    server: ScriptedServer
    log_path: Path
    fail_to_start: str | None = None
    emulation_live: bool = True
    model_name: str = "kveval"
    access: Access = field(default_factory=Access)
    forced_results: Path | None = None
    base_url: str = field(init=False, default="")

    async def start(self, on_status: OnStatus) -> None:
        on_status("loading weights")
        if self.fail_to_start:
            raise EngineError(self.fail_to_start, "last line of the log")
        await self.server.start()
        self.base_url = self.server.base_url

    def exit_message(self) -> str | None:
        return f"{self.variant.name}: the engine stopped (exit code -9)" if self.server.died else None

    def processes(self) -> list[psutil.Process]:
        return [psutil.Process()] if self.server.is_up else []

    async def facts(self) -> Facts:
        try:
            async with httpx.AsyncClient(base_url=self.base_url, verify=False) as client:  # noqa: S501 - no TLS
                version = (await client.get("/version")).json()["version"]
                metrics_text = (await client.get("/metrics")).text
                models = (await client.get("/v1/models")).json()
        except httpx.HTTPError as error:
            raise EngineError(f"{self.variant.name}: the server does not answer") from error
        emulate = self.variant.emulate
        spec = EmulationSpec.model_validate(emulate.model_dump()) if emulate else None
        lines = [requested_line(spec), live_line(0, 9, 0.01, 0.01), coverage_line({0}, (), ())] if spec else []
        return engine_facts.assemble(
            self.variant,
            version=version,
            metrics_text=metrics_text,
            models=models,
            log="\n".join(lines if self.emulation_live else ()),
            model=Path("/nonexistent"),
            startup_seconds=0.1,
            engine_args={},
            emulated=spec,
        )

    def findings(self, facts: Facts, baseline: Facts | None) -> list[Finding]:
        return judge_facts(facts, self.variant, baseline)

    async def stop(self) -> None:
        await self.server.stop()


@contextlib.asynccontextmanager
async def serving(handler: Handler, **config: Any) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    """Starts a server, and a client of it with `config` as its ``requests``."""
    async with ScriptedServer(handler) as server:
        requests = RequestsConfig(**{"timeout_s": 5.0, **config})
        async with Client(server.base_url, "kveval", requests, lambda: None) as client:
            yield client, server


class ScriptedEngines:
    """An engine factory: one server per variant, the same over its launches.

    Args:
        handler: of every variant.

    Attributes:
        launches: names of the variants launched, in order.
        handlers: of single variants, in place of `handler`.
        options: arguments of single variants' servers.
        fail_to_start: what single variants' engines die of, from the launch with that number on (from 1).
        dead_emulation: variants whose plugin is not live.
        force: of variants that are forced, the folder of the results and what answers; `read`: of those that are read
            token by token. See `support.forcing`.
    """

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.handlers: dict[str, Handler] = {}
        self.options: dict[str, Mapping[str, Any]] = {}
        self.fail_to_start: dict[str, tuple[int, str]] = {}
        self.dead_emulation: set[str] = set()
        self.force: dict[str, tuple[Path, Callable[[dict[str, Any]], str]]] = {}
        self.read: dict[str, Callable[[dict[str, Any]], str]] = {}
        self.servers: dict[str, ScriptedServer] = {}
        self.launches: list[str] = []

    def __call__(self, plan: ServerPlan, variant: ResolvedVariant, log_path: Path) -> ScriptedEngine:
        name = variant.name
        self.launches.append(name)
        capacity = 2_000_000 if variant.is_natively_quantized else 1_000_000
        options = {"cache_dtype": variant.kv_cache_dtype, "capacity_tokens": capacity}
        options |= {"speculative_tokens": (variant.config.speculative_config or {}).get("num_speculative_tokens", 0)}
        options |= self.options.get(name, {})
        server = self.servers.setdefault(name, ScriptedServer(self.handlers.get(name, self.handler), **options))
        first, reason = self.fail_to_start.get(name, (0, ""))
        fails = bool(reason) and self.launches.count(name) >= first
        folder, server.force = self.force.get(name, (None, None))
        server.read = self.read.get(name)
        is_live = name not in self.dead_emulation
        return ScriptedEngine(variant, server, log_path, reason if fails else None, is_live, forced_results=folder)

    def requests(self) -> int:
        """Requests of all servers, smoke questions left out."""
        return sum(len(server.asked) for server in self.servers.values())


class Oracle:
    """Knows the samples of a plan by their prompts and answers every one of them rightly."""

    def __init__(self, plan: Plan) -> None:
        self._samples = {sample.prompt.sha256(): sample for sample in plan.samples}

    def sample(self, prompt: list[int]) -> Sample:
        return self._samples[hashlib.sha256(np.array(prompt, dtype="<i4").tobytes()).hexdigest()]

    def chat_prompt(self, body: dict[str, Any]) -> list[int]:
        """What the chat template makes of a request's messages and tools."""
        return next(
            sample.prompt.token_ids().tolist()
            for sample in self._samples.values()
            if sample.chat is not None
            and list(sample.chat.messages) == body["messages"]
            and list(sample.chat.tools) == body.get("tools", [])
        )

    def ids(self, server: ScriptedServer) -> list[str]:
        """sample_ids in the order `server` was asked them."""
        return [self.sample(prompt).sample_id for prompt in server.asked]

    def __call__(self, prompt: list[int], body: dict[str, Any]) -> Reply:
        doc = self.sample(prompt).doc
        if doc.get("expected") and not doc["absent"]:
            return _called(doc["answers"][0], body)
        return Reply("it is not stated in the text" if doc["absent"] else "they are " + " and ".join(doc["answers"]))


class AnswersEveryPlan(ScriptedEngines):
    """Scripted engines that answer the questions of whatever plan they are started for."""

    def __init__(self) -> None:
        super().__init__(always(Reply()))

    def __call__(self, plan: Plan, variant: ResolvedVariant, log_path: Path) -> ScriptedEngine:
        self.handler = Oracle(plan)
        return super().__call__(plan, variant, log_path)


def _called(reference: str, body: dict[str, Any]) -> Reply:
    """A reference's calls, through the server's parser where tools were sent."""
    if "tools" not in body:
        return Reply(reference)
    return Reply(tool_calls=tuple((call["name"], json.dumps(call["arguments"])) for call in json.loads(reference)))
