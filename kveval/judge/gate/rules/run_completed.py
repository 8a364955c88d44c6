"""Checks that the run was not cut short."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.gate.check import Check, Rule
from kveval.judge.run_data import RunData


def check_run_completed(run: RunData, _: Judgement) -> Iterator[Check]:
    manifest = run.manifest
    if manifest.status != "complete" and all(v.status == "complete" for v in manifest.variants.values()):
        yield Check("run", manifest.run_id, "infrastructure", f"the run is {manifest.status}: it was cut short")


RULE = Rule(position=10, check=check_run_completed)
