"""Checks every candidate against the baseline of its run."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.gate.check import Check, Rule, check_pair
from kveval.judge.run_data import RunData

KIND = "quantization"


def check_quantization(run: RunData, judgement: Judgement) -> Iterator[Check]:
    for pair in judgement.pairs:
        if pair.judged:
            yield check_pair(KIND, pair, [pair.variant, run.manifest.baseline], judgement)


RULE = Rule(position=40, check=check_quantization)
