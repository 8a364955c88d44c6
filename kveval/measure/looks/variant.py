"""The looks at one variant while it is asked: what is asked next, and what is asked no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from kveval.engines.variants import ResolvedVariant
from kveval.errors import KvevalError
from kveval.measure import provenance
from kveval.measure.looks.asked import asked_samples
from kveval.measure.manifest_file import ManifestFile
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import Reporter
from kveval.run.looks import LengthFinding, Look, Stop
from kveval.tasks.sample import Sample


class InterimJudge(Protocol):
    """Judges a candidate at the last look that its manifest holds."""

    def __call__(self, variant: str) -> Mapping[int, LengthFinding]:
        """Returns what the look finds at each context length that it covers."""
        ...


class VariantLooks:
    """Decides up to which look a variant is asked next.

    A candidate is judged at every look, and lengths that are decided are asked no more. Other variants are asked
    without being judged. A budget can stop any variant after the first look.

    Args:
        judge: None to ask everything, and to judge once at the end.
        allowance_hours: of server time for this variant. None without a limit.
        answered: how many of some samples the variant has answered.
    """

    def __init__(
        self,
        plan: Plan,
        variant: ResolvedVariant,
        manifest: ManifestFile,
        reporter: Reporter,
        judge: InterimJudge | None,
        *,
        allowance_hours: float | None,
        answered: Callable[[list[Sample]], int],
    ) -> None:
        self._plan = plan
        self._variant = variant
        self._manifest = manifest
        self._reporter = reporter
        self._judge = judge if variant.role == "candidate" else None
        self._allowance_hours = allowance_hours
        self._answered = answered
        self._done = 0
        self._seconds_before = manifest.of(variant).server_seconds
        self._started = time.monotonic()

    @property
    def is_judged(self) -> bool:
        """Whether the variant is judged while it is asked."""
        return self._judge is not None

    @property
    def samples(self) -> list[Sample]:
        """Returns what the variant is asked, as far as that is decided."""
        stopped = self._manifest.of(self._variant).stopped
        return asked_samples(self._plan.samples_of(self._variant), self._plan.looks, stopped)

    def up_to(self, number: int) -> list[Sample]:
        """Returns what is asked up to a look."""
        first_look = self._plan.looks.first_look
        return [sample for sample in self.samples if first_look[sample.sample_id] <= number]

    def next(self) -> int | None:
        """Returns the look up to which the variant is asked next. None if nothing more is asked."""
        first_look = self._plan.looks.first_look
        looks = self._manifest.of(self._variant).looks
        judged = max((look.number for look in looks if look.lengths), default=0)
        numbers = sorted({first_look[sample.sample_id] for sample in self.samples})
        # A look that was judged is asked again where answers of it were lost since.
        left = [
            number
            for number in numbers
            if number > self._done and ((self._judge is not None and number > judged) or not self._is_answered(number))
        ]
        if not left:
            return None
        in_steps = self._judge is not None or self._allowance_hours is not None
        number = left[0] if in_steps else left[-1]
        why = self._why_over_budget(number) if number > numbers[0] else None
        if why:
            self._stop_all(max(self._done, judged), why)
            return None
        return number

    async def take_answered(self) -> None:
        """Takes the looks whose questions are all answered: those that an interrupted sweep did not come to."""
        while self._judge is not None and (number := self.next()) is not None and self._is_answered(number):
            await self.take(number)

    def _is_answered(self, number: int) -> bool:
        wanted = self.up_to(number)
        return self._answered(wanted) == len(wanted)

    async def take(self, number: int) -> None:
        """Judges the candidate at a look. Every question up to it must have been asked."""
        self._done = number
        if self._judge is None:
            return
        first_look = self._plan.looks.first_look
        new = sorted({one.context_length for one in self.samples if first_look[one.sample_id] == number})
        before = [look for look in self._manifest.of(self._variant).looks if look.number < number]
        planned = next(look for look in self._plan.looks.looks if look.number == number)
        look = Look(
            **planned.model_dump(),
            at=provenance.now(),
            questions=self._answered(self.samples),
            context_lengths=new,
        )
        self._manifest.update(self._variant, looks=[*before, look])
        self._reporter.status(f"judging what {self._variant.name} answered so far")
        try:
            found = await asyncio.to_thread(self._judge, self._variant.name)
        except KvevalError as error:
            self._reporter.note(f"{self._variant.name}: could not be judged while it is asked: {error}")
            return
        self._manifest.update(self._variant, looks=[*before, look.model_copy(update={"lengths": dict(found)})])
        stops = {
            length: Stop(look=number, cause=one.stop, reason=f"at {length:,} tokens: {one.reason}")
            for length, one in found.items()
            if one.stop is not None
        }
        self._stop(stops)

    def _why_over_budget(self, number: int) -> str | None:
        """Returns why the questions up to a look are more than the budget. None if they are not."""
        budget, up_to = self._plan.config.budget, self.up_to(number)
        if budget.samples is not None and self._variant.role == "candidate" and len(up_to) > budget.samples:
            return f"budget.samples of {budget.samples:,} does not hold the {len(up_to):,} questions of the next look"
        if self._allowance_hours is None:
            return None
        seconds, answered = self._seconds(), self._answered(up_to)
        expected = seconds * len(up_to) / max(1, answered)
        if expected <= 3600 * self._allowance_hours:
            return None
        return (
            f"budget.gpu_hours leaves {self._allowance_hours:.2f} hours to {self._variant.name}, "
            f"and the next look would take it to {expected / 3600:.2f}"
        )

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._started

    def _stop_all(self, number: int, why: str) -> None:
        stopped = self._manifest.of(self._variant).stopped
        lengths = {sample.context_length for sample in self._plan.samples_of(self._variant)} - stopped.keys()
        self._stop({length: Stop(look=number, cause="budget", reason=why) for length in lengths})

    def _stop(self, stops: Mapping[int, Stop]) -> None:
        if not stops:
            return
        self._manifest.update(self._variant, stopped={**self._manifest.of(self._variant).stopped, **stops})
        for reason in dict.fromkeys(stop.reason for _, stop in sorted(stops.items())):
            self._reporter.note(f"{self._variant.name}: no more questions: {reason}")
