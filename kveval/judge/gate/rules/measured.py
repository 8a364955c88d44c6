"""Checks that nothing broke while the baseline and the controls were measured. Candidates have checks of their own."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.gate.check import Check, Rule
from kveval.judge.run_data import RunData


def check_measured(run: RunData, judgement: Judgement) -> Iterator[Check]:
    for problem in judgement.problems:
        role = run.manifest.variants[problem.variant].role
        if role != "candidate":
            kind = "trust" if problem.is_void else "run" if role == "baseline" else "control"
            yield Check(kind, problem.variant, "infrastructure", problem.message)


RULE = Rule(position=20, check=check_measured)
