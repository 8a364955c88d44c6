"""Measures the prompt tokens that the engine computes per question, with and without a shared prefix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.server import LONGEST_TOKENS, Server
from kveval.engines.client.client import Client
from kveval.engines.metrics import counters
from kveval.measure.plan.plan import Plan
from kveval.measure.records import request_of

_QUESTIONS = 10


async def measure(server: Server) -> dict[str, Any]:
    plan = server.plan(context_lengths=[LONGEST_TOKENS], samples=_QUESTIONS, questions_per_haystack=_QUESTIONS)
    run = (await server.sweep(plan)).run
    shared = run.counters["prompt_tokens_computed"] / len(plan.samples)
    alone = await _without_sharing(server, plan) / len(plan.samples)
    return {
        "context_length": LONGEST_TOKENS,
        "questions_per_haystack": _QUESTIONS,
        "questions": len(plan.samples),
        "block_size": run.facts.block_size,
        "computed_tokens_per_question_shared": round(shared, 1),
        "computed_tokens_per_question_alone": round(alone, 1),
        "times_fewer": round(alone / shared, 2),
    }


async def _without_sharing(server: Server, plan: Plan) -> float:
    """Counts the prompt tokens computed if every question has a different salt, so that no block is shared."""
    engine = server.engine
    async with Client(engine.base_url, engine.model_name, plan.config.requests, engine.exit_message) as client:
        before = counters(await client.metrics_text())
        for sample in plan.samples:
            answer = await client.ask(replace(request_of(sample), cache_salt=sample.sample_id))
            if answer.error_kind:
                raise RuntimeError(f"{sample.sample_id}: {answer.error_kind}: {answer.error_message}")
        after = counters(await client.metrics_text())
    return after.values["prompt_tokens_computed"] - before.values["prompt_tokens_computed"]
