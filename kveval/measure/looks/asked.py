"""What a variant is asked where context lengths stop early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kveval.measure.looks.schedule import LookPlan
from kveval.run.looks import Stop
from kveval.tasks.sample import Sample


def asked_samples(samples: Iterable[Sample], looks: LookPlan, stopped: Mapping[int, Stop]) -> list[Sample]:
    """Returns the samples that are asked: those of a stopped length only up to the look that stopped it."""
    return [
        sample
        for sample in samples
        if (stop := stopped.get(sample.context_length)) is None or looks.first_look[sample.sample_id] <= stop.look
    ]


def earlier_stops(*stopped: Mapping[int, Stop]) -> dict[int, Stop]:
    """Returns for each length the stop that comes first."""
    found: dict[int, Stop] = {}
    for of_one in stopped:
        for length, stop in of_one.items():
            if length not in found or stop.look < found[length].look:
                found[length] = stop
    return found


def stopped_early(asked: int, planned: int, stopped: Mapping[int, Stop]) -> str | None:
    """Says that a variant was not asked everything, and why. None if it was."""
    if asked >= planned:
        return None
    causes = sorted({stop.cause for stop in stopped.values()})
    if causes == ["decided"]:
        why = "every context length is decided" if len(stopped) > 1 else "it is decided"
    else:
        why = "; ".join(dict.fromkeys(stop.reason for stop in stopped.values()))
    return f"stopped at {asked:,} of {planned:,} questions ({asked / planned:.0%}): {why}"
