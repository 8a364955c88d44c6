"""Checks that the controls completed: the second run of the baseline, and the emulated controls."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.gate.check import Check, Rule
from kveval.judge.run_data import RunData, infrastructure_problem


def check_controls_completed(run: RunData, judgement: Judgement) -> Iterator[Check]:
    for variant in run.manifest.variants.values():
        problem = infrastructure_problem(run, variant, judgement.policy)
        if problem and variant.role not in ("baseline", "candidate"):
            yield Check("control", variant.name, "infrastructure", problem)


RULE = Rule(position=20, check=check_controls_completed)
