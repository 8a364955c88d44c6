"""What is left to ask of one variant."""

from __future__ import annotations

from kveval.tasks.sample import Sample


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
