"""Levels, replies and clients of load measurements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kveval.config.sweep import validate_config
from kveval.engines.client.client import Client
from kveval.load.plan import LoadPlan
from kveval.load.run import run_load
from kveval.run.facts import Finding
from kveval.run.load_results import Level, LevelResult, LoadDocument, LoadVariant, Spread
from support.scripted import Reply, ScriptedEngines, ScriptedServer

TOKENS = tuple(range(100, 400))


OUTPUT_TOKENS = 5
SMALL = {
    "concurrency": [1, 3], "prompt_lengths": [32, 64], "output_tokens": OUTPUT_TOKENS, "requests": 6,
    "warmup_requests": 1, "sample_interval_s": 0.05,
}  # fmt: skip
Planner = Callable[..., LoadPlan]


def words(count: int = OUTPUT_TOKENS, **reply: Any) -> Reply:
    return Reply(" ".join(["word"] * count), finish_reason="length", **reply)


def level(**changes: Any) -> Level:
    values = {
        "kind": "closed", "concurrency": 2, "prompt_lengths": [64], "output_tokens": OUTPUT_TOKENS, "requests": 6,
        "warmup_requests": 2, "seed": 0,
    }  # fmt: skip
    return Level.model_validate(values | changes)


def is_smoke(body: dict[str, Any]) -> bool:
    return body.get("cache_salt") == "kveval-smoke"


def client_of(server: ScriptedServer) -> Client:
    requests = validate_config({"model": "/m", "variants": ["bf16"], "context_lengths": [64], "tasks": ["x"]}).requests
    once = requests.model_copy(update={"max_attempts": 1, "logprobs": 0, "timeout_s": 5.0})
    return Client(server.base_url, "kveval", once, lambda: None)


async def measure(plan: LoadPlan, out: Path, engines: ScriptedEngines, *, resume: bool = False) -> LoadDocument:
    return await run_load(plan, out, resume=resume, on_status=lambda _: None, open_engine=engines)  # type: ignore[arg-type]


def load_document(**ttft_ms: list[float]) -> LoadDocument:
    """What variants of these names did at one level each, their times to the first token as given; the first is the
    baseline."""
    one = level()
    variants = {}
    for name, times in ttft_ms.items():
        spread = Spread.of(times)
        measured = LevelResult(
            level=one, outcomes={"completed": len(times), "http_500": one.requests - len(times)}, warmup_outcomes={},
            duration_s=2.0, ttft_ms=spread, itl_ms=spread, gap_ms=spread, latency_ms=spread, output_tokens=100,
            prompt_tokens=384, output_tokens_per_s=50.0, total_tokens_per_s=242.0, requests_per_s=3.0,
            findings=[Finding.warning("load_failures", f"{name} failed")] if len(times) < one.requests else [],
        )  # fmt: skip
        variants[name] = LoadVariant(
            name=name, role="candidate" if variants else "baseline", spec={}, status="complete", levels=[measured],
            cold_start_s=12.0,
        )  # fmt: skip
    return LoadDocument(
        kveval_version="0", created="2026-01-01T00:00:00+00:00", baseline=next(iter(variants)), config={}, inputs={},
        max_model_len=512, variants=variants, versions={}, machine={},
    )  # fmt: skip
