"""The score of one variant, without any comparison."""

from __future__ import annotations

from kveval.judge.comparison.pairing import has_right_answer
from kveval.judge.comparison.scope import Scope, in_scope
from kveval.judge.run_data import RunData
from kveval.judge.statistics.score import Score, mean_score


def own_score(run: RunData, variant: str, scope: Scope, *, confidence: float) -> Score:
    """Returns the mean score of `variant` over the samples of `scope` that it answered and that have a right answer.

    An engine error is no score of 0: an outage is not a loss of quality.
    """
    asked = in_scope(run.samples[has_right_answer(run.samples)], scope)
    records = run.records[variant]
    answered = records.index[(records["outcome"] != "engine_error").to_numpy(dtype=bool)].intersection(asked.index)
    return mean_score(
        records.loc[answered, "score"].astype(float), asked.loc[answered, "haystack_id"], confidence=confidence
    )
