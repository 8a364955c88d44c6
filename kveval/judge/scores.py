"""Each variant's own scores, before any comparison."""

from __future__ import annotations

from kveval.judge.pairing import Group, has_right_answer, members
from kveval.judge.run_data import Run
from kveval.judge.stats import Score, mean_score


def own_score(run: Run, variant: str, group: Group, *, confidence: float) -> Score:
    """Mean score of `variant` over the samples of `group` that have a right answer and that it answered.

    Engine errors are outcomes, not scores of 0: an outage is not a loss of quality.
    """
    asked = members(run.samples[has_right_answer(run.samples)], group)
    records = run.records[variant]
    answered = records.index[(records["outcome"] != "engine_error").to_numpy(dtype=bool)].intersection(asked.index)
    return mean_score(
        records.loc[answered, "score"].astype(float), asked.loc[answered, "haystack_id"], confidence=confidence
    )
