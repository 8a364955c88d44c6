"""What a reader of the history looks for first: what fails since when, what changed then, and where the level moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.verdict import p_label
from kveval.judge.statistics.steps import find_step
from kveval.report.history.night import Entry, Night
from kveval.report.labels import length_label

FALSE_ALARMS = 0.01
"""The largest probability that a page names a change of level where nothing changed, over all its lines together."""


def triage(nights: Sequence[Night]) -> list[str]:
    """Returns one sentence for each variant that fails on the last night, then one for each change of level."""
    return [*_failing(nights), *_steps(nights)]


def _failing(nights: Sequence[Night]) -> Iterator[str]:
    for entry in nights[-1].entries:
        if not _fails(entry):
            continue
        name, since = entry.variant.name, nights[-1]
        for night in reversed(nights[:-1]):
            before = next((one for one in night.entries if one.variant.name == name), None)
            if before is None or not _fails(before):
                break
            since = night
        changes = [night for night in nights[: nights.index(since) + 1] if night.engine_changed]
        last = changes[-1] if changes else None
        engine = f"; engine changed {_date(last)} ({last.engine_changed} to {last.engine})" if last else ""
        yield f"{name}: failing since {_date(since)} ({since.name}){engine}."


def _fails(entry: Entry) -> bool:
    return entry.headline is not None and entry.headline.word == "fail"


def _steps(nights: Sequence[Night]) -> Iterator[str]:
    # Scores of other questions are on another level by themselves.
    start = max((index for index, night in enumerate(nights) if night.asked_changed), default=0)
    same = nights[start:]
    lines = list(dict.fromkeys((e.variant.name, key) for night in same for e in night.entries for key in e.rows))
    for name, length in lines:
        found = [
            (night, row)
            for night in same
            for entry in night.entries
            if entry.variant.name == name and (row := entry.rows.get(length)) and row.difference.low is not None
        ]
        step = find_step([_point(row) for _, row in found], error=FALSE_ALARMS / len(lines))
        if step:
            night = found[step.index][0]
            place = length_label(length) if length else "overall"
            yield (
                f"{name}, {place}: moved from {100 * step.before:+.1f} to {100 * step.after:+.1f} points "
                f"on {_date(night)} ({night.name}), adjusted {p_label(step.p)}."
            )


def _point(row: Comparison) -> tuple[float, float]:
    """Returns the difference, and the standard error that its interval stands for: never 0."""
    difference = row.difference
    width = (difference.high or 0.0) - (difference.low or 0.0)
    z = NormalDist().inv_cdf((1 + row.confidence) / 2)
    return difference.delta or 0.0, max(difference.se or 0.0, width / 2 / z, 1e-9)


def _date(night: Night) -> str:
    return night.created[:10]


def lengths_of(nights: Sequence[Night]) -> list[int]:
    """Returns every context length that any night compared, shortest first."""
    rows: list[Mapping[int | None, Comparison]] = [entry.rows for night in nights for entry in night.entries]
    return sorted({length for one in rows for length in one if length is not None})
