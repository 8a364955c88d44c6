"""Checks every blessed variant against its own answers in the blessed run."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.gate.check import Check, Rule, check_pair
from kveval.judge.run_data import RunData


def check_blessed(_: RunData, judgement: Judgement) -> Iterator[Check]:
    for pair in judgement.blessed_pairs:
        yield check_pair("blessed", pair, [pair.variant], judgement)


RULE = Rule(position=50, check=check_blessed)
