"""Asks one server the samples that are still missing, and notices when the server breaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.counter_log import CounterLog
from kveval.engines.session import Session
from kveval.errors import EngineError
from kveval.measure.expected import ExpectedAsker
from kveval.measure.haystacks import HaystackSamples, group_by_haystack
from kveval.measure.launching.work import Work
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.records import record_of, request_of
from kveval.measure.schedule import ask_all
from kveval.measure.watch.counters import Counted, planned_hit_tokens
from kveval.run.directory import RunDirectory
from kveval.run.records import SentinelRecord
from kveval.tasks.sample import Sample

# After so many failures of the server in a row it counts as broken, even if its process lives on.
_MAX_FAILURES_IN_A_ROW = 5


class ServerBrokenError(Exception):
    """The server died, or fails every request."""


@dataclass
class SampleAsker:
    """Asks every sample that remains of `work` on one launch, and appends each record as it comes.

    Attributes:
        order: the place of every haystack in the order of asking, by its id.
        tokens: prompt and output tokens of each sample, by its id, for the progress bar.
        is_last_launch: keep the failures of a broken server as records. Otherwise the next launch asks again.
        counted: what the server did while it was asked.
    """

    plan: Plan
    run: RunDirectory
    reporter: Reporter
    session: Session
    client: Client
    work: Work
    order: Mapping[str, int]
    tokens: Mapping[str, int]
    is_last_launch: bool
    counted: Counted = field(default_factory=Counted, init=False)
    _log: CounterLog = field(default_factory=CounterLog, init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _answered: list[Sample] = field(default_factory=list, init=False)
    _failures_in_a_row: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        reader = self.session.reader(self.client, self.plan.serving_temperature)
        self._expected = ExpectedAsker(self.plan.references, reader, self.plan.config.requests.max_in_flight)

    async def ask(self) -> None:
        """Asks what remains.

        Raises:
            ServerBrokenError: the server broke. What is not answered remains.
            FactsChangedError: the server does something other than it did before.
        """
        started = time.monotonic()
        await self._read_counters()
        try:
            while (look := self.work.looks.next()) is not None:
                await self._ask_up_to(look)
                await self._take(look)
            if self._answered:
                self.work.blocks.end()
            while sentinel := self.work.blocks.sentinel():
                await self._ask_all([sentinel], max_in_flight=1)
        finally:
            seconds = time.monotonic() - started
            await self._read_counters()
            block_size = self.session.facts.block_size or 16
            prefills = self.plan.prefills_of(self.session.variant)
            planned = planned_hit_tokens(self._answered, block_size, prefills)
            planned += self._expected.planned_hit_tokens(self._answered, block_size)
            self.counted = Counted(self._log, seconds, planned)

    async def _ask_up_to(self, look: int) -> None:
        wanted, remaining = {sample.sample_id for sample in self.work.looks.up_to(look)}, self.work.remaining
        unsuspected = [sample for sample in remaining.unsuspected() if sample.sample_id in wanted]
        await self._ask_all(self._in_order(unsuspected), max_in_flight=self.plan.config.requests.max_in_flight)
        suspects = [sample for sample in remaining.suspects() if sample.sample_id in wanted]
        await self._ask_all(self._in_order(suspects), max_in_flight=1)

    async def _take(self, look: int) -> None:
        """Judges what is answered, if the variant is judged while it is asked. The server must not have changed."""
        looks = self.work.looks
        if looks.is_judged:
            await self._look_again(is_last=True)
        await looks.take(look)
        self.work.blocks.plan_to_ask(len(looks.samples))

    def _in_order(self, samples: list[Sample]) -> list[HaystackSamples]:
        return sorted(group_by_haystack(samples), key=lambda haystack: self.order[haystack.haystack_id])

    async def _ask_all(self, haystacks: list[HaystackSamples], *, max_in_flight: int) -> None:
        await ask_all(
            haystacks,
            self._ask_one,
            self.session.facts,
            max_in_flight=max_in_flight,
            leading=self.plan.leading_of(self.session.variant),
            due=self.work.blocks.sentinel,
        )

    async def _read_counters(self) -> None:
        self._log.read(await self.client.metrics_text(), self.work.blocks.answered)

    async def _ask_one(self, sample: Sample) -> None:
        # What is answered already is asked again as a sentinel.
        is_sentinel, asked_after = sample not in self.work.remaining, self.work.blocks.answered
        if not is_sentinel:
            self.work.remaining.begin(sample)
        answer = await self.client.ask(request_of(sample))
        broken = await self._why_broken(answer)
        name, task = self.session.variant.name, self.plan.tasks[sample.task]
        # Scoring may run code for seconds. It must not delay the timestamps of other answers.
        record = await asyncio.to_thread(record_of, sample, task, name, answer, self.plan.reasoning)
        if is_sentinel:
            self.run.append_sentinel(SentinelRecord(**dict(record), asked_after=asked_after))
        else:
            self.run.append(await self._expected.complete(record, sample))
            self.work.remaining.done(sample)
            self._answered.append(sample)
            self.reporter.answered(record, self.tokens[sample.sample_id])
        failures = self._failures_in_a_row = self._failures_in_a_row + 1 if answer.is_server_failure else 0
        if failures >= _MAX_FAILURES_IN_A_ROW:
            broken = broken or f"{failures} requests in a row failed, the last with {answer.error_message}"
        is_block_over = not is_sentinel and self.work.blocks.answer(record)
        if broken:
            raise ServerBrokenError(broken)
        if is_block_over:
            await self._look_again()

    async def _look_again(self, *, is_last: bool = False) -> None:
        """Reads counters and facts at the end of a block. Other questions go on being asked meanwhile.

        Args:
            is_last: this reading must succeed, because something rests on the answers so far.
        """
        # One reading at a time: of two that overtake each other, the older one would look like a restart.
        async with self._looking:
            await self._read_counters()
            try:
                blocks = self.work.blocks
                await self.work.watch.look(self.session, blocks.answered, is_last=is_last or blocks.is_over)
            except EngineError as error:
                # Only the last reading must succeed: it vouches for all answers since the one before.
                if is_last or self.work.blocks.is_over:
                    raise ServerBrokenError(str(error)) from error

    async def _why_broken(self, answer: EngineAnswer) -> str | None:
        """Returns why the server must not be asked again. Raises ServerBrokenError if the answer must not be kept."""
        if answer.is_refusal:
            raise ServerBrokenError(answer.error_message)
        other = await self.client.other_model()
        if other:
            raise ServerBrokenError(other)
        broken = self.session.engine.exit_message()
        if broken is None and answer.is_server_failure and not await self.client.is_healthy():
            broken = f"the server is not healthy; {answer.error_message}"
        if broken and answer.is_server_failure and not self.is_last_launch:
            raise ServerBrokenError(broken)
        return broken
