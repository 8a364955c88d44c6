"""A scripted OpenAI-compatible server: real HTTP, answers from a function. For tests of kveval's own logic only."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kveval.engines import facts as engine_facts
from kveval.engines.base import OnStatus
from kveval.engines.capabilities import ResolvedVariant
from kveval.engines.facts import Facts
from kveval.engines.vllm import free_port
from kveval.errors import EngineError


@dataclass
class Reply:
    """What one request gets.

    Attributes:
        logprob: of every token; NaN is sent as such.
        hang: the server accepts the request and never answers.
        die: the server goes away in the middle of the answer.
    """

    text: str = ""
    finish_reason: str | None = "stop"
    status: int = 200
    logprob: float = -0.1
    delay_s: float = 0.0
    hang: bool = False
    die: bool = False
    raw: str | None = None


Handler = Callable[[list[int], dict[str, Any]], Reply]


class ScriptedServer:
    """Answers /v1/completions from `handler`; keeps every request body it saw."""

    def __init__(self, handler: Handler, *, cache_dtype: str = "bfloat16", capacity_tokens: int = 1_000_000) -> None:
        self.handler = handler
        self.cache_dtype = cache_dtype
        self.capacity_tokens = capacity_tokens
        self.requests: list[dict[str, Any]] = []
        self.running = self.most_running = 0
        self.prompt_tokens = 0
        self.died = False
        self.max_model_len = 1 << 20
        self.port = free_port()
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/version", self._version),
                Route("/metrics", self._metrics),
                Route("/v1/models", self._models),
                Route("/v1/completions", self._completions, methods=["POST"]),
            ]
        )
        config = uvicorn.Config(app, port=self.port, log_level="error", timeout_graceful_shutdown=1, lifespan="off")
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = self._server.force_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._server = None

    async def _health(self, _: Request) -> Response:
        return PlainTextResponse("", status_code=500 if self.died else 200)

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": "scripted"})

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "kveval", "max_model_len": self.max_model_len}]})

    async def _metrics(self, _: Request) -> Response:
        return PlainTextResponse(
            f'vllm:cache_config_info{{block_size="16",cache_dtype="{self.cache_dtype}",enable_prefix_caching="True",'
            f'kv_cache_size_tokens="{self.capacity_tokens}",kv_cache_dtype_skip_layers="[]"}} 1.0\n'
            "# TYPE vllm:prompt_tokens counter\n"
            f"vllm:prompt_tokens_total {self.prompt_tokens}\n"
        )

    async def _completions(self, request: Request) -> Response:
        body = await request.json()
        if "prompt_logprobs" in body:
            rows = [None, *({"1": {"logprob": -3.0}} for _ in range(20))]
            return JSONResponse({"choices": [{"text": "", "prompt_logprobs": rows}]})
        self.requests.append(body)
        prompt = body["prompt"]
        reply = self.handler(prompt, body)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(reply.delay_s)
            while reply.hang:
                await asyncio.sleep(0.05)
                if await request.is_disconnected():
                    break
        finally:
            self.running -= 1
        if reply.die:
            self.died = True
        if self.died:
            return PlainTextResponse("gone", status_code=500)
        if reply.status != 200:
            return JSONResponse({"error": {"message": "scripted failure"}}, status_code=reply.status)
        if reply.raw is not None:
            return PlainTextResponse(reply.raw, media_type="text/event-stream")
        self.prompt_tokens += len(prompt)
        return StreamingResponse(self._stream(prompt, reply), media_type="text/event-stream")

    async def _stream(self, prompt: list[int], reply: Reply) -> AsyncIterator[str]:
        pieces = [piece + " " for piece in reply.text.split(" ")] if reply.text else [""]
        pieces[-1] = pieces[-1].removesuffix(" ")
        for position, piece in enumerate(pieces):
            token = f"token_id:{sum(piece.encode()) % 997}"
            last = position == len(pieces) - 1
            choice = {
                "text": piece,
                "finish_reason": reply.finish_reason if last else None,
                "logprobs": {
                    "tokens": [token] if piece else [],
                    "top_logprobs": [{token: reply.logprob, "token_id:1": -5.0}] if piece else [],
                },
            }
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": 0}}
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"


@dataclass
class ScriptedEngine:
    """A `ScriptedServer` where kveval expects an engine."""

    variant: ResolvedVariant
    server: ScriptedServer
    log_path: Path
    fail_to_start: str | None = None
    starts: int = 0
    model_name: str = "kveval"
    base_url: str = field(init=False, default="")

    async def start(self, on_status: OnStatus) -> None:
        if self.fail_to_start:
            raise EngineError(self.fail_to_start, "last line of the log")
        on_status("loading weights")
        self.starts += 1
        self.server.died = False
        await self.server.start()
        self.base_url = self.server.base_url

    def exit_message(self) -> str | None:
        return f"{self.variant.name}: the engine stopped (exit code -9)" if self.server.died else None

    async def facts(self) -> Facts:
        import httpx

        async with httpx.AsyncClient(base_url=self.base_url) as client:
            metrics_text = (await client.get("/metrics")).text
            models = (await client.get("/v1/models")).json()
        emulated = self.variant.emulate is not None
        return engine_facts.assemble(
            self.variant,
            version="scripted",
            metrics_text=metrics_text,
            models=models,
            log="",
            model=Path("/nonexistent"),
            startup_seconds=0.1,
            engine_args={},
            emulation_label="scripted" if emulated else None,
            emulation_live=True if emulated else None,
        )

    async def stop(self) -> None:
        await self.server.stop()
