"""What is left to ask of one variant, over all its launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kveval.measure.watch.blocks import Blocks
from kveval.measure.watch.facts import FactsWatch
from kveval.tasks.sample import Sample


class Steps(Protocol):
    """Says up to where a variant is asked next. A step ends where the variant is looked at."""

    @property
    def is_judged(self) -> bool:
        """Whether the variant is judged after each step."""
        ...

    @property
    def samples(self) -> Sequence[Sample]:
        """Returns what the variant is asked, as far as that is decided."""
        ...

    def up_to(self, number: int) -> Sequence[Sample]:
        """Returns what is asked up to the end of a step."""
        ...

    def next(self) -> int | None:
        """Returns the number of the next step. None if nothing more is asked."""
        ...

    async def take(self, number: int) -> None:
        """Notes that everything up to the end of a step was asked."""
        ...

    async def take_answered(self) -> None:
        """Takes the steps whose questions were all answered before."""
        ...


class AskAll:
    """Asks some samples in one step."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.is_judged = False
        self.samples = list(samples)
        self._is_done = False

    def up_to(self, number: int) -> Sequence[Sample]:  # noqa: ARG002 (there is one step)
        return self.samples

    def next(self) -> int | None:
        return None if self._is_done else 1

    async def take(self, number: int) -> None:  # noqa: ARG002
        self._is_done = True

    async def take_answered(self) -> None:
        """Does nothing: nobody looks."""


class Remaining:
    """Samples of one variant still to ask.

    What was in flight when a server broke is a suspect: it may have broken the server. Suspects are asked last and one
    at a time, so that a request which breaks servers costs only its own answer.
    """

    def __init__(self, samples: list[Sample]) -> None:
        self._samples = {sample.sample_id: sample for sample in samples}
        self._in_flight: set[str] = set()
        self._suspects: set[str] = set()

    def __contains__(self, sample: Sample) -> bool:
        return sample.sample_id in self._samples

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


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to ask of one variant, over all its launches.

    Attributes:
        blocks: says when the server is looked at again, and what it is asked again.
        watch: looks at its facts again.
        looks: says how much is asked before the variant is judged, and what is asked no more.
    """

    remaining: Remaining
    blocks: Blocks
    watch: FactsWatch
    looks: Steps
