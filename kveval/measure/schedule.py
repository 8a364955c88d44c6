"""Asks samples in an order that fills the prefix cache once for every haystack, within what the KV cache holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from kveval.measure.haystacks import HaystackSamples
from kveval.run.facts import Facts
from kveval.tasks.sample import Sample

# The rest is for what the budget cannot see, such as blocks of finished requests that are not freed yet.
_USABLE_SHARE = 0.9
# Haystacks being prefilled at once: enough to keep the engine busy, few enough that first tokens do not queue.
_PREFILLS_AT_ONCE = 4


class TokenBudget:
    """Keeps the tokens in flight below what the KV cache holds, so that the engine preempts nothing.

    Args:
        limit_tokens: None if there is no limit.
    """

    def __init__(self, limit_tokens: int | None) -> None:
        self._limit = limit_tokens
        self._used = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Condition()

    @property
    def in_flight(self) -> int:
        return self._used

    @asynccontextmanager
    async def hold(self, tokens: int) -> AsyncIterator[None]:
        """Waits until `tokens` fit. More than the whole budget waits until nothing else is in flight.

        Who came first is served first: a long context is not overtaken by short ones until the end of the run.
        """
        limit = self._limit
        if limit is None:
            yield
            return
        wanted = min(tokens, limit)
        async with self._turn, self._freed:
            await self._freed.wait_for(lambda: self._used + wanted <= limit)
            self._used += wanted
        try:
            yield
        finally:
            async with self._freed:
                self._used -= wanted
                self._freed.notify_all()


def nothing_due() -> HaystackSamples | None:
    return None


async def ask_all(
    haystacks: Iterable[HaystackSamples],
    ask: Callable[[Sample], Awaitable[None]],
    facts: Facts,
    *,
    max_in_flight: int,
    leading: int = 1,
    due: Callable[[], HaystackSamples | None] = nothing_due,
) -> None:
    """Asks every sample once. An exception of `ask` cancels the rest and is raised as it is.

    Args:
        facts: of the server. Its KV cache limits the tokens in flight. If the samples of a haystack do not fit all at
            once, they are asked as they fit, in the worst case one at a time.
        leading: how many samples of a haystack are asked one after another, until the others find its prefix cached.
        due: returns what is asked before the next haystack, or None.
    """
    capacity = facts.kv_capacity_tokens
    limit = max(int(capacity * _USABLE_SHARE), 1) if capacity else None
    max_in_flight = min(max_in_flight, facts.max_num_seqs or max_in_flight)
    budget = TokenBudget(limit)
    slots = asyncio.Semaphore(max_in_flight)
    prefills = asyncio.Semaphore(_PREFILLS_AT_ONCE)

    async def ask_one(sample: Sample) -> None:
        async with slots:
            await ask(sample)

    def own_tokens(sample: Sample) -> int:
        # Every request rounds its own part up to whole blocks.
        return len(sample.prompt.tail) + sample.max_output_tokens + 2 * (facts.block_size or 16)

    async def ask_haystack(haystack: HaystackSamples) -> None:
        # All that a haystack needs is held at once. Two of them that wait for their second halves could wait forever.
        concurrent = sorted((own_tokens(sample) for sample in haystack.samples), reverse=True)[:max_in_flight]
        own = TokenBudget(None if limit is None else max(limit - haystack.shared_tokens, 1))

        async def follow(sample: Sample) -> None:
            async with own.hold(own_tokens(sample)):
                await ask_one(sample)

        async with budget.hold(haystack.shared_tokens + sum(concurrent)):
            async with prefills:
                for sample in haystack.samples[:leading]:
                    await ask_one(sample)
            async with asyncio.TaskGroup() as others:
                for sample in haystack.samples[leading:]:
                    others.create_task(follow(sample))

    waiting = list(haystacks)
    pending = iter(waiting)

    async def worker() -> None:
        for haystack in pending:
            while first := due():
                await ask_haystack(first)
            await ask_haystack(haystack)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(max_in_flight, len(waiting))):
                workers.create_task(worker())
    except BaseExceptionGroup as failures:
        raise _first_error(failures) from None


def _first_error(group: BaseExceptionGroup) -> BaseException:
    first = group.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
