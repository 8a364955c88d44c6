"""Measures what kveval adds to asking: its asking phase against a bare loop that sends the same requests."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx

from benchmarks.server import Server
from kveval.engines.client.access import Access
from kveval.engines.client.request import body_of
from kveval.measure.haystacks import group_by_haystack
from kveval.measure.plan.plan import Plan
from kveval.measure.records import request_of

_PAIRS = 9
# The same as in the schedule. Repeated, because the loop must not depend on what it is compared with.
_PRIMING = 4


async def measure(server: Server) -> dict[str, Any]:
    plan = server.plan(context_lengths=[1024], samples=20, questions_per_haystack=10)
    haystacks = list(_bodies(plan, server))
    in_flight = plan.config.requests.max_in_flight
    harness: list[Round] = []
    bare: list[Round] = []
    await _bare(server, haystacks, in_flight)
    for pair in range(_PAIRS):
        # The order alternates, so that a machine that slows down or speeds up favours neither.
        for turn in ("harness", "bare") if pair % 2 == 0 else ("bare", "harness"):
            if turn == "harness":
                swept = await server.sweep(plan)
                harness.append(Round(swept.run.asking_seconds, swept.cpu_seconds))
            else:
                bare.append(await _bare(server, haystacks, in_flight))
    ratios = [ours.seconds / theirs.seconds for ours, theirs in zip(harness, bare, strict=True)]
    return {
        "requests": len(plan.samples),
        "pairs": _PAIRS,
        "harness_over_bare_median": round(statistics.median(ratios), 3),
        "harness_over_bare": [round(ratio, 3) for ratio in ratios],
        # Whatever else runs on the machine only adds to a round, so the fastest ones compare best.
        "harness_over_bare_fastest": round(min(r.seconds for r in harness) / min(r.seconds for r in bare), 3),
        "harness_seconds": [round(r.seconds, 2) for r in harness],
        "bare_seconds": [round(r.seconds, 2) for r in bare],
        "harness_cpu_seconds_median": round(statistics.median(r.cpu_seconds for r in harness), 3),
        "bare_cpu_seconds_median": round(statistics.median(r.cpu_seconds for r in bare), 3),
    }


class Round(NamedTuple):
    seconds: float
    cpu_seconds: float


def _bodies(plan: Plan, server: Server) -> Iterator[list[bytes]]:
    """Yields every request of the sweep as it is sent, one list per haystack."""
    model, logprobs = server.engine.model_name, plan.config.requests.logprobs
    for group in group_by_haystack(plan.samples):
        requests = [request_of(sample) for sample in group.samples]
        bodies = [body_of(r, model=model, logprobs=logprobs, access=Access(), spell=None)[0] for r in requests]
        yield [json.dumps(body).encode() for body in bodies]


async def _bare(server: Server, haystacks: list[list[bytes]], max_in_flight: int) -> Round:
    """Sends every request and reads every answer to its end."""
    await server.forget_prefixes()
    slots = asyncio.Semaphore(max_in_flight)
    priming = asyncio.Semaphore(_PRIMING)

    async with httpx.AsyncClient(base_url=server.engine.base_url, timeout=600) as client:

        async def post(body: bytes) -> None:
            async with (
                slots,
                client.stream(
                    "POST", "/v1/completions", content=body, headers={"content-type": "application/json"}
                ) as response,
            ):
                response.raise_for_status()
                async for _ in response.aiter_raw():
                    pass

        async def haystack(bodies: list[bytes]) -> None:
            async with priming:
                await post(bodies[0])
            await asyncio.gather(*(post(body) for body in bodies[1:]))

        started, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(haystack(bodies) for bodies in haystacks))
        return Round(time.monotonic() - started, time.process_time() - cpu)
