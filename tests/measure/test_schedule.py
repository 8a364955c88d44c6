from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.samples import sample

from kveval.measure.haystacks import HaystackSamples
from kveval.measure.schedule import TokenBudget, ask_all
from kveval.run.facts import Facts
from kveval.tasks.sample import Sample


def group(haystack: str, questions: int, *, shared: int = 100, tail: int = 10, output: int = 8) -> HaystackSamples:
    samples = (sample(haystack, n, shared=shared, tail=tail, output=output) for n in range(questions))
    return HaystackSamples(haystack, tuple(samples))


class Server:
    """Stands in for an engine: counts what is in flight, and what the prefix cache must hold for it."""

    def __init__(self, block_size: int = 16) -> None:
        self.block_size = block_size
        self.in_flight: list[Sample] = []
        self.asked: list[str] = []
        self.most_in_flight = self.most_tokens = 0
        self.unprimed = 0
        self.primed: set[str] = set()

    def tokens(self) -> int:
        haystacks = {one.haystack_id: len(one.prompt.shared) for one in self.in_flight}
        return sum(haystacks.values()) + sum(len(one.prompt.tail) + one.max_output_tokens for one in self.in_flight)

    async def __call__(self, one: Sample) -> None:
        self.asked.append(one.sample_id)
        self.unprimed += one.haystack_id not in self.primed and not one.sample_id.endswith("-0")
        self.in_flight.append(one)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        self.most_tokens = max(self.most_tokens, self.tokens())
        for _ in range(1 + len(self.asked) % 3):
            await asyncio.sleep(0)
        self.in_flight.remove(one)
        self.primed.add(one.haystack_id)


groups_of_any_size = st.lists(
    st.tuples(st.integers(1, 7), st.integers(1, 900), st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=12
)


@settings(max_examples=150, deadline=None)
@given(sizes=groups_of_any_size, capacity=st.integers(1, 3000), most=st.integers(1, 9))
def test_the_cache_is_never_overfilled_and_everything_is_asked(
    sizes: list[tuple[int, int, int, int]], capacity: int, most: int
) -> None:
    groups = [
        group(str(number), questions, shared=shared, tail=tail, output=output)
        for number, (questions, shared, tail, output) in enumerate(sizes)
    ]
    server = Server()

    asyncio.run(ask_all(groups, server, Facts(kv_capacity_tokens=capacity), max_in_flight=most))

    assert Counter(server.asked) == Counter(s.sample_id for g in groups for s in g.samples)
    assert server.most_in_flight <= most
    assert server.unprimed == 0
    largest_alone = max(shared + tail + output for _, shared, tail, output in sizes)
    assert server.most_tokens <= max(capacity, largest_alone)


async def test_two_questions_lead_where_a_prefix_is_shared_from_the_third_on() -> None:
    most: list[int] = []
    running: set[str] = set()

    async def ask(one: Sample) -> None:
        running.add(one.sample_id)
        await asyncio.sleep(0)
        most.append(len(running))
        running.discard(one.sample_id)

    await ask_all([group("a", 5)], ask, Facts(), max_in_flight=8, leading=2)
    assert most[:2] == [1, 1]
    assert max(most[2:]) == 3


async def test_a_haystack_is_primed_before_its_other_questions_are_sent() -> None:
    first_done = asyncio.Event()
    sent: list[str] = []

    async def ask(one: Sample) -> None:
        sent.append(one.sample_id)
        if one.sample_id == "a-0":
            await first_done.wait()

    task = asyncio.create_task(ask_all([group("a", 4)], ask, Facts(), max_in_flight=8))
    for _ in range(20):
        await asyncio.sleep(0)
    assert sent == ["a-0"]
    first_done.set()
    await task
    assert sorted(sent) == ["a-0", "a-1", "a-2", "a-3"]


async def test_other_haystacks_go_on_while_one_is_primed() -> None:
    server = Server()
    groups = [group(name, 3) for name in "abc"]
    await ask_all(groups, server, Facts(), max_in_flight=8)
    assert server.asked[:3] == ["a-0", "b-0", "c-0"]
    assert server.most_in_flight > 2


async def test_a_failure_ends_everything_and_is_raised_as_it_is() -> None:
    cancelled: list[str] = []

    async def ask(one: Sample) -> None:
        if one.sample_id == "b-1":
            raise LookupError("b-1")
        try:
            await asyncio.sleep(0.01 if one.sample_id.endswith("-0") else 60)
        except asyncio.CancelledError:
            cancelled.append(one.sample_id)
            raise

    with pytest.raises(LookupError, match="b-1"):
        await ask_all([group("a", 3), group("b", 3)], ask, Facts(kv_capacity_tokens=10_000), max_in_flight=8)
    assert cancelled


async def test_cancelling_reaches_every_request() -> None:
    started = asyncio.Event()

    async def ask(one: Sample) -> None:
        started.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(ask_all([group("a", 2)], ask, Facts(), max_in_flight=2))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_huge_limit_of_requests_costs_nothing() -> None:
    server = Server()
    await ask_all([group("a", 2)], server, Facts(), max_in_flight=1 << 40)
    assert len(server.asked) == 2


async def _holds(budget: TokenBudget, tokens: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
    async with budget.hold(tokens):
        await meanwhile()


async def test_more_than_the_budget_waits_until_it_is_alone() -> None:
    budget = TokenBudget(100)
    release = asyncio.Event()
    held: list[int] = []

    async def wait() -> None:
        held.append(budget.in_flight)
        await release.wait()

    first = asyncio.create_task(_holds(budget, 10, wait))
    await asyncio.sleep(0)
    big = asyncio.create_task(_holds(budget, 1000, wait))
    for _ in range(5):
        await asyncio.sleep(0)
    assert held == [10]
    release.set()
    await asyncio.gather(first, big)
    assert held == [10, 100]
    assert budget.in_flight == 0


async def test_a_long_context_is_not_overtaken_by_short_ones() -> None:
    budget = TokenBudget(100)
    held: list[int] = []

    async def note() -> None:
        held.append(budget.in_flight)
        await asyncio.sleep(0)

    sizes = [60, 90, *[20] * 10]
    async with asyncio.TaskGroup() as group:
        for tokens in sizes:
            group.create_task(_holds(budget, tokens, note))
    assert held[:2] == [60, 90]


async def test_what_is_due_is_asked_before_the_next_haystack() -> None:
    server, waiting = Server(), [group("b", 1), group("c", 1)]

    def due() -> HaystackSamples | None:
        return waiting.pop(0) if len(server.asked) >= 3 and waiting else None

    await ask_all([group("a", 3), group("d", 1), group("e", 1)], server, Facts(), max_in_flight=1, due=due)
    assert server.asked == ["a-0", "a-1", "a-2", "b-0", "c-0", "d-0", "e-0"]


async def test_a_cancelled_holder_gives_its_tokens_back() -> None:
    budget = TokenBudget(100)
    task = asyncio.create_task(_holds(budget, 60, lambda: asyncio.sleep(60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert budget.in_flight == 0
