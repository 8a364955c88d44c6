"""The mean score of one variant by itself."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from kveval.judge.comparison.endpoint import Kind
from kveval.judge.comparison.pairing import UNITS, has_right_answer
from kveval.judge.comparison.scope import Scope, in_scope
from kveval.judge.run_data import RunData
from kveval.judge.statistics.clusters import Score, mean_score


def own_score(run: RunData, variant: str, scope: Scope, *, confidence: float, kind: Kind = "greedy") -> Score:
    """Returns the mean score of `variant` over the samples of `scope` that it answered and that have a right answer.

    An engine error is no score of 0: an outage is not a loss of quality. An expected score counts only at the
    temperature of the baseline's.
    """
    asked = in_scope(run.samples[has_right_answer(run.samples)], scope)
    records = run.records[variant]
    answered = records.index[(records["outcome"] != "engine_error").to_numpy(dtype=bool)].intersection(asked.index)
    if kind == "greedy":
        scores = records.loc[answered, "score"].astype(float)
    else:
        scores = expected_scores(records.loc[answered, "expected"], kind, temperature_of(run)).dropna()
    return mean_score(scores, asked.loc[scores.index, "haystack_id"], confidence=confidence)


def kinds_of(run: RunData) -> tuple[Kind, ...]:
    """Returns the kinds of score that the run has: greedy, then each unit of the expected score."""
    units = {one["unit"] for records in run.records.values() for one in records["expected"] if isinstance(one, Mapping)}
    return ("greedy", *(unit for unit in UNITS if unit in units))


def temperature_of(run: RunData) -> float | None:
    """Returns the temperature of the baseline's expected scores. None if it has none."""
    records = run.records[run.manifest.baseline]
    return next((float(one["temperature"]) for one in records["expected"] if isinstance(one, Mapping)), None)


def expected_scores(expected: pd.Series, kind: Kind, temperature: float | None) -> pd.Series:
    """Returns the expected scores of this unit and temperature, and NaN elsewhere."""
    values = [
        one["score"] if isinstance(one, Mapping) and (one["unit"], one["temperature"]) == (kind, temperature) else None
        for one in expected
    ]
    return pd.Series(values, index=expected.index, dtype=float)
