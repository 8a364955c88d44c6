"""Which sample is asked when: a haystack is primed with its first question, then its others follow from cache."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, groupby, zip_longest

from kveval.run.manifest import Role
from kveval.tasks.sample import Sample

# Room for what the budget cannot see, such as blocks of finished requests not yet freed.
_HEADROOM = 0.9
# Haystacks being prefilled at once: enough to keep the engine busy, few enough that first tokens do not queue.
_PRIMING = 4


@dataclass(frozen=True, slots=True)
class Group:
    """Samples of one haystack, in the order they are asked; the first primes the prefix cache."""

    haystack_id: str
    samples: tuple[Sample, ...]

    @property
    def shared_tokens(self) -> int:
        return len(self.samples[0].prompt.shared)


def group_by_haystack(samples: Iterable[Sample]) -> list[Group]:
    """Haystacks in the order of `samples`, short contexts first: early records cost little."""
    ordered = sorted(samples, key=lambda sample: sample.context_length)
    first_seen: dict[str, int] = {}
    for position, sample in enumerate(ordered):
        first_seen.setdefault(sample.haystack_id, position)
    ordered.sort(key=lambda sample: first_seen[sample.haystack_id])
    return [Group(key, tuple(members)) for key, members in groupby(ordered, key=lambda s: s.haystack_id)]


def prefill_shares(samples: list[Sample]) -> dict[str, int]:
    """Prompt tokens each sample costs: its haystack's shared part once, with the sample that primes it."""
    shares: dict[str, int] = {}
    for group in group_by_haystack(samples):
        for position, sample in enumerate(group.samples):
            own = len(sample.prompt.tail) + sample.max_output_tokens
            shares[sample.sample_id] = own + (group.shared_tokens if position == 0 else 0)
    return shares


def cold_samples(samples: Iterable[Sample], wanted: int | float, seed: int) -> list[Sample]:
    """What is asked again without the prefix cache: `wanted` samples, or that share of them below 1.

    Only those that follow another of their haystack: the one that primes it is answered cold anyway. One of each cell
    in turn, short contexts first, because a whole prefill is what each of them costs.
    """
    groups = group_by_haystack(samples)
    cells: dict[tuple[int, str], list[Sample]] = {}
    for group in groups:
        for sample in group.samples[1:]:
            cells.setdefault((sample.context_length, sample.task), []).append(sample)

    def draw(sample: Sample) -> str:
        return hashlib.sha256(f"{seed}/cold/{sample.sample_id}".encode()).hexdigest()

    drawn = [sorted(cells[cell], key=draw) for cell in sorted(cells)]
    in_turn = [sample for sample in chain.from_iterable(zip_longest(*drawn)) if sample is not None]
    asked = sum(len(group.samples) for group in groups)
    return in_turn[: wanted if isinstance(wanted, int) else max(1, round(wanted * asked))]


def cold_tokens(sample: Sample) -> int:
    """What asking it without the prefix cache costs: its whole prompt, and its output at most."""
    return len(sample.prompt) + sample.max_output_tokens


def is_cold_checked(role: Role) -> bool:
    """Controls and the A/A run are controls themselves."""
    return role in ("baseline", "candidate")


class Remaining:
    """Samples of one variant still to ask.

    What was in flight when a server broke is a suspect: it may be why. Suspects are asked last and one at a time, so
    that a request which kills servers costs no answer but its own.
    """

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = {sample.sample_id: sample for sample in samples}
        self._in_flight: set[str] = set()
        self._suspects: set[str] = set()

    def begin(self, sample: Sample) -> None:
        self._in_flight.add(sample.sample_id)

    def done(self, sample: Sample) -> None:
        self._in_flight.discard(sample.sample_id)
        self._samples.pop(sample.sample_id, None)

    def suspect_in_flight(self) -> None:
        self._suspects |= self._in_flight
        self._in_flight.clear()

    def unsuspected(self) -> list[Sample]:
        return [sample for sample in self._samples.values() if sample.sample_id not in self._suspects]

    def suspects(self) -> list[Sample]:
        return [sample for sample in self._samples.values() if sample.sample_id in self._suspects]


class TokenBudget:
    """Tokens in flight, kept below what the KV cache holds, so that nothing is preempted.

    Args:
        limit_tokens: None = unlimited.
    """

    def __init__(self, limit_tokens: int | None) -> None:
        self._limit = limit_tokens
        self._used = 0
        self._freed = asyncio.Condition()

    @property
    def in_flight(self) -> int:
        return self._used

    @asynccontextmanager
    async def hold(self, tokens: int) -> AsyncIterator[None]:
        """Waits until `tokens` fit. More than the whole budget waits until nothing else is in flight."""
        limit = self._limit
        if limit is None:
            yield
            return
        wanted = min(tokens, limit)
        async with self._freed:
            await self._freed.wait_for(lambda: self._used + wanted <= limit)
            self._used += wanted
        try:
            yield
        finally:
            async with self._freed:
                self._used -= wanted
                self._freed.notify_all()


async def ask_all(
    groups: Iterable[Group],
    ask: Callable[[Sample], Awaitable[None]],
    *,
    capacity_tokens: int | None,
    max_in_flight: int,
    block_size: int = 16,
) -> None:
    """Asks every sample once. An exception of `ask` cancels the rest and is raised as it is.

    Args:
        capacity_tokens: of the KV cache, as the server reported it; None = unlimited. A haystack that leaves no room
            for all its questions at once has them asked as they fit, in the worst case one at a time.
        block_size: tokens per cache block; every request rounds its own part up to whole blocks.
    """
    limit = max(int(capacity_tokens * _HEADROOM), 1) if capacity_tokens else None
    budget = TokenBudget(limit)
    slots = asyncio.Semaphore(max_in_flight)
    priming = asyncio.Semaphore(_PRIMING)

    async def one(sample: Sample) -> None:
        async with slots:
            await ask(sample)

    def own_tokens(sample: Sample) -> int:
        return len(sample.prompt.tail) + sample.max_output_tokens + 2 * block_size

    async def one_group(group: Group) -> None:
        # The whole haystack's need is held at once: a group waiting for its second half could wait forever.
        concurrent = sorted((own_tokens(sample) for sample in group.samples), reverse=True)[:max_in_flight]
        own = TokenBudget(None if limit is None else max(limit - group.shared_tokens, 1))

        async def follow(sample: Sample) -> None:
            async with own.hold(own_tokens(sample)):
                await one(sample)

        async with budget.hold(group.shared_tokens + sum(concurrent)):
            async with priming:
                await one(group.samples[0])
            async with asyncio.TaskGroup() as others:
                for sample in group.samples[1:]:
                    others.create_task(follow(sample))

    waiting = list(groups)
    pending = iter(waiting)

    async def worker() -> None:
        for group in pending:
            await one_group(group)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(max_in_flight, len(waiting))):
                workers.create_task(worker())
    except BaseExceptionGroup as failures:
        raise _first_leaf(failures) from None


def _first_leaf(group: BaseExceptionGroup) -> BaseException:
    first = group.exceptions[0]
    return _first_leaf(first) if isinstance(first, BaseExceptionGroup) else first
