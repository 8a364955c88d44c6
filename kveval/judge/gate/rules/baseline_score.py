"""Checks that the baseline scores high enough to show a loss."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.own_score import own_score
from kveval.judge.comparison.scope import Scope
from kveval.judge.comparison.verdict import points
from kveval.judge.gate.check import Check, Rule
from kveval.judge.run_data import RunData


def check_baseline_score(run: RunData, judgement: Judgement) -> Iterator[Check]:
    baseline, minimum = run.manifest.baseline, judgement.policy.min_baseline_score
    if any(problem.is_void for problem in judgement.problems_of(baseline)):
        # Its score is that of a broken server.
        return
    policy = judgement.policy
    score = own_score(run, baseline, Scope("overall"), confidence=policy.confidence, advisory=policy.advisory)
    if not minimum or score.mean is None:
        return
    scored = f"the baseline scores {points(score.mean)} points"
    if score.mean >= minimum:
        yield Check("baseline score", baseline, "pass", f"{scored}, at least {points(minimum)} are required")
    elif score.high is not None and score.high < minimum:
        reason = f"{scored}, which is below the minimum of {points(minimum)} and not by chance; it cannot show a loss"
        yield Check("baseline score", baseline, "regression", reason)
    else:
        reason = f"{scored}, which is below the minimum of {points(minimum)}, but chance could explain it"
        yield Check("baseline score", baseline, "undecided", reason)


RULE = Rule(position=30, check=check_baseline_score)
