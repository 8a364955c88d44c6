"""Judges what was looked at again while a variant was asked: its server's facts, and questions from the start."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import binom

from kveval.judge.evidence.noise import aa_flips
from kveval.judge.run_data import RunData
from kveval.judge.statistics.time_change import LEVEL
from kveval.judge.trust.problem import Problem, clock, iso_time
from kveval.run.manifest import VariantRun

# Share of answers that turn right or wrong when one engine is asked twice, where no A/A run says it. BF16 asked twice
# turned 177 of 1,319 (vLLM issue 5898).
_UNKNOWN_NOISE = 0.15


def facts_changed(variant: VariantRun) -> Problem | None:
    """Returns the problem of a variant whose server said something else of itself while it was asked."""
    if not variant.facts_changed:
        return None
    first = min(variant.facts_changed, key=lambda change: change.at_question)
    what = "; ".join(f"{one.name} was {one.before} and is {one.after}" for one in variant.facts_changed)
    message = f"{variant.name}: the server changed by question {first.at_question:,}{clock(first.at)}: {what}"
    return Problem(variant.name, "facts_changed", message, first.at_question, first.at)


@dataclass(frozen=True, slots=True)
class _Sentinel:
    asked_after: int
    at: str
    differs: bool


def sentinels_differ(run: RunData, variant: VariantRun) -> Problem | None:
    """Returns the problem of a variant that no longer answers questions from its start as it did.

    Over every stretch of sentinels in the order of asking, the number that turned right or wrong is compared with what
    two runs of one engine turn (exact binomial test). Bonferroni over all stretches keeps the level at `LEVEL`.
    """
    records = run.records[variant.name]
    sentinels = [
        _Sentinel(one.asked_after, iso_time(one.sent_at), (one.outcome == "correct") != (first == "correct"))
        for one in run.sentinels.get(variant.name, ())
        if one.sample_id in records.index
        for first in [records.at[one.sample_id, "outcome"]]
        if "engine_error" not in (one.outcome, first)
    ]
    noise, count = _noise(run), len(sentinels)
    stretches = [(start, stop) for start in range(count) for stop in range(start + 1, count + 1)]
    best: tuple[float, int, int] | None = None
    for start, stop in stretches:
        differing = sum(one.differs for one in sentinels[start:stop])
        p = float(binom.sf(differing - 1, stop - start, noise)) * len(stretches)
        if best is None or p < best[0]:
            best = p, start, stop
    if best is None or best[0] > LEVEL:
        return None
    p, start, stop = best
    found = sentinels[start:stop]
    first, differing = found[0], sum(one.differs for one in found)
    asked = len(run.asked_here(variant.name))
    message = (
        f"{variant.name}: from question {first.asked_after:,} of {asked:,}{clock(first.at)} "
        f"{'on' if stop == count else f'to {found[-1].asked_after:,}'}, {differing} of {len(found)} questions asked "
        f"again are no longer answered as at the start (p = {p:.2g}; asked twice, one engine turns {noise:.1%}): "
        "the server changed"
    )
    return Problem(variant.name, "sentinels_differ", message, first.asked_after, first.at)


def _noise(run: RunData) -> float:
    """Returns the share of answers that turn between the baseline's two runs, at least that of one in all plus two."""
    flips = aa_flips(run)
    return _UNKNOWN_NOISE if flips is None or flips.empty else float((flips.sum() + 1) / (len(flips) + 2))
