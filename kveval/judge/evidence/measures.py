"""What is counted beside the score: refusals, hallucinations, degenerate outputs, full budgets, and a task's metrics.

Each is a value from 0 to 1 of one sample and one variant. So it has a mean with an interval, and a paired difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from kveval.judge.comparison.scope import Level, Scope, in_scope, scopes
from kveval.judge.run_data import RunData
from kveval.judge.statistics.clusters import Score, mean_score
from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.run.facts import Finding

Event = Literal["refused", "hallucinated", "degenerate", "out_of_budget"]
EVENTS: tuple[Event, ...] = get_args(Event)
EVENT_WORDS: Mapping[str, str] = {
    "refused": "refused to answer",
    "hallucinated": "answered where there is no answer",
    "degenerate": "degenerated (a loop, mixed scripts, or text about something else)",
    "out_of_budget": "used up the output budget",
}
_EVENT_LEVELS: tuple[Level, ...] = ("overall", "length", "family")
_CLAIMS = ("wrong", "invalid_format")


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of one variant over one scope.

    Attributes:
        name: an event of `EVENTS`, or a metric of the task.
        count: samples that have the event. None for a metric.
        own: the variant's mean over the samples that it answered and that have the measure.
        baseline: the baseline's mean over the samples that both have. None for the baseline itself.
        difference: candidate minus baseline over the same samples. None for the baseline itself.
    """

    variant: str
    name: str
    scope: Scope
    count: int | None
    own: Score
    baseline: Score | None
    difference: Difference | None

    @property
    def is_event(self) -> bool:
        return self.name in EVENTS


def measures(run: RunData, *, confidence: float) -> list[Measure]:
    """Returns every measure: events overall, by length and by family, then each task's metrics by cell.

    A measure that no sample of a scope has is left out. Runs of a version that did not look for refusals and
    degenerate outputs have neither.
    """
    events = {name: _events(run, name) for name in run.manifest.variants}
    metrics = {name: _metrics(run, name) for name in run.manifest.variants}
    return [
        *_rows(run, events, _EVENT_LEVELS, confidence=confidence),
        *_rows(run, metrics, ("cell",), confidence=confidence),
    ]


def event_findings(found: list[Measure], *, baseline: str, confidence: float) -> list[Finding]:
    """Returns a finding for each event whose share differs between a variant and the baseline.

    The confidence is that of one comparison, without a correction for many: a finding decides nothing.
    """
    findings = []
    for one in found:
        difference = one.difference
        if not one.is_event or one.scope.level != "overall" or difference is None or one.baseline is None:
            continue
        if difference.p is None or difference.p >= 1 - confidence or one.own.mean is None:
            continue
        message = (
            f"{one.variant} {EVENT_WORDS[one.name]} in {one.own.mean:.1%} of {one.own.n:,} answers, "
            f"{baseline} in {one.baseline.mean or 0.0:.1%}"
        )
        findings.append(Finding.warning(f"{one.name}_share_differs", message))
    return findings


def _rows(
    run: RunData, values: Mapping[str, pd.DataFrame], levels: tuple[Level, ...], *, confidence: float
) -> Iterator[Measure]:
    baseline = values[run.manifest.baseline]
    for scope in scopes(run.samples, *levels):
        index = in_scope(run.samples, scope).index
        clusters = run.samples.loc[index, "haystack_id"]
        for variant in run.baseline_first:
            is_baseline = variant.name == run.manifest.baseline
            for name, column in values[variant.name].loc[index].items():
                own = column.dropna()
                if own.empty:
                    continue
                both = pd.DataFrame({"own": own, "baseline": baseline[name]} if name in baseline else {"own": own})
                both = both.dropna() if "baseline" in both and not is_baseline else both[:0]
                yield Measure(
                    variant=variant.name,
                    name=str(name),
                    scope=scope,
                    count=int(own.sum()) if name in EVENTS else None,
                    own=mean_score(own, clusters[own.index], confidence=confidence),
                    baseline=mean_score(both["baseline"], clusters[both.index], confidence=confidence)
                    if len(both)
                    else None,
                    difference=paired_difference(
                        both["baseline"], both["own"], clusters[both.index], confidence=confidence
                    )
                    if len(both)
                    else None,
                )


def _events(run: RunData, variant: str) -> pd.DataFrame:
    """Returns one row per sample and a column per event: 1, 0, or NaN where it cannot be or was not looked for."""
    records = run.records[variant].reindex(run.samples.index)
    answered = records["outcome"].notna() & (records["outcome"] != "engine_error")
    looked = answered & records["degenerate"].notna()
    degenerate = looked & (records["degenerate"] != "none")
    absent = pd.Series([bool(doc.get("absent", False)) for doc in run.samples["doc"]], index=run.samples.index)
    found = {
        "refused": (records["outcome"] == "refused", looked),
        "hallucinated": (records["outcome"].isin(_CLAIMS) & ~degenerate, answered & absent),
        "degenerate": (degenerate, looked),
        "out_of_budget": (records["finish_reason"] == "length", answered),
    }
    return pd.DataFrame({name: happened.astype(float).where(covers) for name, (happened, covers) in found.items()})


def _metrics(run: RunData, variant: str) -> pd.DataFrame:
    """Returns one row per sample and a column per metric of its task; NaN where a sample has none.

    Beside them stands ``budget_used``: the share of the output budget that the answer took.
    """
    records = run.records[variant].reindex(run.samples.index)
    rows = [dict(one) if isinstance(one, Mapping) else {} for one in records["metrics"]]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name, np.nan) for row in rows] for name in names}
    found = pd.DataFrame(columns, index=run.samples.index, dtype=float)
    answered = records["outcome"].notna() & (records["outcome"] != "engine_error")
    share = records["output_tokens"].astype(float) / run.samples["max_output_tokens"].astype(float)
    found["budget_used"] = share.clip(upper=1.0).where(answered)
    return found
