"""Runs one level against one server: warm up, send, observe, count."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import psutil

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.client.request import EngineRequest
from kveval.engines.counter_log import CounterLog
from kveval.load.prompts import Remake, arrivals_s, prompts, warmup_prompts
from kveval.load.sample import Samples, device_bytes, sampling
from kveval.run.load_results import Level


@dataclass(frozen=True, slots=True)
class Sent:
    """One request and its answer. `sent_s`: seconds after the level began."""

    prompt_tokens: int
    sent_s: float
    answer: EngineAnswer


@dataclass(frozen=True, slots=True)
class Driven:
    """What happened during one level. `counters`: the server's, around the counted requests."""

    level: Level
    warmup: list[Sent]
    sent: list[Sent]
    duration_s: float
    samples: Samples
    counters: CounterLog
    device_bytes: int | None


async def drive(
    level: Level,
    client: Client,
    tokens: tuple[int, ...],
    *,
    salt: str,
    remake: Remake = lambda prompt: prompt,
    processes: Sequence[psutil.Process] = (),
    sample_interval_s: float = 1.0,
    is_gone: Callable[[], bool] = lambda: False,
) -> Driven:
    """Sends every request of `level` and waits for every answer.

    Args:
        client: must try each request only once. A second attempt would hide the failure of the first.
        tokens: ids to make prompts of.
        salt: blocks of the prefix cache that were made under another salt are not found.
        remake: turns every prompt into what this server must be sent.
        is_gone: returns True when the server is dead. The rest of the requests is then not sent.
    """
    first = map(remake, warmup_prompts(level, tokens))
    warmup = await _closed(first, level.concurrency or 1, client, level, f"{salt}-warmup")
    counters = CounterLog()
    counters.read(await client.metrics_text(), 0)
    async with sampling(client, processes, sample_interval_s) as samples:
        started = time.perf_counter()
        pending = map(remake, prompts(level, tokens))
        if level.kind == "open":
            sent = await _open(pending, arrivals_s(level), client, level, salt, is_gone)
        else:
            sent = await _closed(pending, level.concurrency or 1, client, level, salt, is_gone)
        duration_s = time.perf_counter() - started
    counters.read(await client.metrics_text(), len(sent))
    on_device = await asyncio.to_thread(device_bytes, processes)
    return Driven(level, warmup, sent, duration_s, samples, counters, on_device)


async def first_token(client: Client, tokens: tuple[int, ...], salt: str) -> EngineAnswer:
    """Sends a very short request, to see when a fresh server answers."""
    return await client.ask(EngineRequest(np.array(tokens[:16], dtype=np.int32), 2, cache_salt=salt, ignore_eos=True))


async def _closed(
    pending: Iterator[np.ndarray],
    concurrency: int,
    client: Client,
    level: Level,
    salt: str,
    is_gone: Callable[[], bool] = lambda: False,
) -> list[Sent]:
    """Keeps `concurrency` requests in flight until all are sent."""
    sent: list[Sent] = []
    started = time.perf_counter()

    async def worker() -> None:
        for prompt in pending:
            if is_gone():
                return
            sent.append(await _send(prompt, client, level, salt, started))

    async with asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(worker())
    return sent


async def _open(
    pending: Iterator[np.ndarray],
    arrivals: list[float],
    client: Client,
    level: Level,
    salt: str,
    is_gone: Callable[[], bool],
) -> list[Sent]:
    """Sends every request at its time, and waits for no answer."""
    sent: list[Sent] = []
    started = time.perf_counter()

    async def one(prompt: np.ndarray) -> None:
        sent.append(await _send(prompt, client, level, salt, started))

    async with asyncio.TaskGroup() as requests:
        for prompt, arrival in zip(pending, arrivals, strict=True):
            await asyncio.sleep(max(started + arrival - time.perf_counter(), 0))
            if is_gone():
                break
            requests.create_task(one(prompt))
    return sent


async def _send(prompt: np.ndarray, client: Client, level: Level, salt: str, started: float) -> Sent:
    request = EngineRequest(prompt, level.output_tokens, cache_salt=salt, ignore_eos=True)
    sent_s = time.perf_counter() - started
    return Sent(len(prompt), sent_s, await client.ask(request))


def outcome_of(sent: Sent, level: Level) -> str:
    """Returns ``completed``, ``short_output``, ``rate_limited``, or the kind of the error."""
    if sent.answer.error_kind:
        return sent.answer.error_kind
    # The server asked to wait, and the request was sent again: its times are not those of one request.
    if sent.answer.attempts > 1:
        return "rate_limited"
    return "completed" if sent.answer.output_tokens >= level.output_tokens else "short_output"


def outcomes_of(sent: Sequence[Sent], level: Level) -> dict[str, int]:
    return dict(Counter(outcome_of(one, level) for one in sent))
