"""Asks one server the samples that are still missing, and notices when the server breaks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kveval.engines.client.answer import EngineAnswer
from kveval.engines.client.client import Client
from kveval.engines.metrics import counters
from kveval.engines.session import Session
from kveval.measure.counters import Counted, planned_hit_tokens
from kveval.measure.haystacks import group_by_haystack
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.measure.records import record_of, request_of
from kveval.measure.schedule import ask_all
from kveval.run.directory import RunDirectory
from kveval.tasks.sample import Sample

# After so many failures of the server in a row it counts as broken, even if its process lives on.
_MAX_FAILURES_IN_A_ROW = 5


class ServerBrokenError(Exception):
    """The server died, or fails every request."""


class Remaining:
    """Samples of one variant still to ask.

    What was in flight when a server broke is a suspect: it may have broken the server. Suspects are asked last and one
    at a time, so that a request which breaks servers costs only its own answer.
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


@dataclass
class SampleAsker:
    """Asks every sample of `remaining` on one launch, and appends each record as it comes.

    Attributes:
        tokens: prompt and output tokens of each sample, by its id, for the progress bar.
        is_last_launch: keep the failures of a broken server as records. Otherwise the next launch asks again.
        counted: what the server did while it was asked.
    """

    plan: Plan
    run: RunDirectory
    reporter: Reporter
    session: Session
    client: Client
    remaining: Remaining
    tokens: Mapping[str, int]
    is_last_launch: bool
    counted: Counted = field(default_factory=Counted, init=False)
    _answered: list[Sample] = field(default_factory=list, init=False)
    _failures_in_a_row: int = field(default=0, init=False)

    async def ask(self) -> None:
        """Asks what remains. Raises ServerBrokenError if the server broke: what is not answered remains."""
        facts = self.session.facts
        before, started = counters(await self.client.metrics_text()), time.monotonic()
        try:
            unsuspected = group_by_haystack(self.remaining.unsuspected())
            await ask_all(unsuspected, self._ask_one, facts, max_in_flight=self.plan.config.requests.max_in_flight)
            await ask_all(group_by_haystack(self.remaining.suspects()), self._ask_one, facts, max_in_flight=1)
        finally:
            seconds = time.monotonic() - started
            after = counters(await self.client.metrics_text())
            planned = planned_hit_tokens(self._answered, facts.block_size or 16)
            added = {name: value - before.get(name, 0.0) for name, value in after.items()}
            self.counted = Counted(added, seconds, planned)

    async def _ask_one(self, sample: Sample) -> None:
        self.remaining.begin(sample)
        answer = await self.client.ask(request_of(sample))
        broken = await self._why_broken(answer)
        name = self.session.variant.name
        # Scoring may run code for seconds. It must not delay the timestamps of other answers.
        record = await asyncio.to_thread(record_of, sample, self.plan.tasks[sample.task], name, answer)
        self.run.append(record)
        self.remaining.done(sample)
        self._answered.append(sample)
        self.reporter.answered(record, self.tokens[sample.sample_id])
        failures = self._failures_in_a_row = self._failures_in_a_row + 1 if answer.is_server_failure else 0
        if failures >= _MAX_FAILURES_IN_A_ROW:
            broken = broken or f"{failures} requests in a row failed, the last with {answer.error_message}"
        if broken:
            raise ServerBrokenError(broken)

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
