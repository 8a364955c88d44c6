"""The mean score of one variant by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from kveval.judge.comparison.endpoint import Kind
from kveval.judge.comparison.pairing import UNITS, forced_texts, has_right_answer
from kveval.judge.comparison.scope import Scope, in_scope
from kveval.judge.run_data import RunData
from kveval.judge.statistics.clusters import Score, mean_score
from kveval.run.records import ExpectedMethod


def own_score(
    run: RunData,
    variant: str,
    scope: Scope,
    *,
    confidence: float,
    kind: Kind = "greedy",
    advisory: Collection[str] = (),
) -> Score:
    """Returns the mean score of `variant` over the samples of `scope` that it answered and that have a right answer.

    An engine error is no score of 0: an outage is not a loss of quality. An expected score counts only at the
    temperature of the baseline's, and not if other texts were forced on the baseline. Families that are `advisory`
    count only in scopes of their own.
    """
    asked = in_scope(run.samples[has_right_answer(run.samples)], scope, advisory=advisory)
    records = run.records[variant]
    answered = records.index[(records["outcome"] != "engine_error").to_numpy(dtype=bool)].intersection(asked.index)
    if kind == "greedy":
        scores = records.loc[answered, "score"].astype(float)
    else:
        temperature, of_baseline = temperature_of(run), run.records[run.manifest.baseline]["expected"].reindex(answered)
        found = zip(records.loc[answered, "expected"], of_baseline, strict=True)
        values = [_expected_score(one, first, kind, temperature) for one, first in found]
        scores = pd.Series(values, index=answered, dtype=float).dropna()
    return mean_score(scores, asked.loc[scores.index, "haystack_id"], confidence=confidence)


def kinds_of(run: RunData) -> tuple[Kind, ...]:
    """Returns the kinds of score that the run has: greedy, then each unit of the expected score."""
    units = {one["unit"] for records in run.records.values() for one in records["expected"] if isinstance(one, Mapping)}
    return ("greedy", *(unit for unit in UNITS if unit in units))


def temperature_of(run: RunData) -> float | None:
    """Returns the temperature of the baseline's expected scores. None if it has none."""
    found = _of_baseline(run, "temperature")
    return None if found is None else float(found)


def method_of(run: RunData) -> ExpectedMethod | None:
    """Returns how the baseline's expected scores were read. None if it has none."""
    method: ExpectedMethod | None = _of_baseline(run, "method")
    return method


def _of_baseline(run: RunData, key: str) -> Any:
    records = run.records[run.manifest.baseline]
    return next((one.get(key) for one in records["expected"] if isinstance(one, Mapping)), None)


def _expected_score(expected: Any, of_baseline: Any, kind: Kind, temperature: float | None) -> float | None:
    """Returns the expected score of one record if it counts."""
    if not isinstance(expected, Mapping) or (expected["unit"], expected["temperature"]) != (kind, temperature):
        return None
    if isinstance(of_baseline, Mapping) and forced_texts(expected) != forced_texts(of_baseline):
        return None
    return float(expected["score"])
