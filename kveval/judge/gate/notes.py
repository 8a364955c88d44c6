"""Findings about a run that a reader of the gate must know."""

from __future__ import annotations

from collections.abc import Iterator

from kveval.judge.blessed.against_blessed import changes
from kveval.judge.blessed.bless import Blessed
from kveval.judge.comparison.judgement import Judgement
from kveval.judge.comparison.verdict import points
from kveval.judge.evidence.cold import cold_comparisons
from kveval.judge.run_data import RunData
from kveval.run.facts import Finding


def notes(run: RunData, blessed: Blessed | None, judgement: Judgement) -> Iterator[Finding]:
    """Yields what a reader must know beside the checks."""
    policy = judgement.policy
    for name, variant in run.manifest.variants.items():
        if variant.facts.is_emulated and variant.role == "candidate":
            yield Finding(
                level="warning",
                code="emulated",
                message=f"{name} is emulated: it has the numerics of the format, but saves no memory, and "
                "the kernel of a native cache was not tested",
            )
        for finding in variant.findings:
            if finding.level != "info":
                yield finding.model_copy(update={"message": f"{name}: {finding.message}"})
    for check in cold_comparisons(run):
        if check.finding:
            yield check.finding.model_copy(update={"message": f"{check.variant}: {check.finding.message}"})
    yield from _unequal_control(run, judgement)
    unused = sorted(set(policy.margins) - set(run.samples["family"]))
    if unused:
        yield Finding(
            level="warning", code="unused_margin", message=f"no family of this run is called {', '.join(unused)}"
        )
    if blessed:
        yield from changes(run, blessed, policy)


def _unequal_control(run: RunData, judgement: Judgement) -> Iterator[Finding]:
    aa = run.variant("aa", run.manifest.baseline)
    for comparison in judgement.of(aa.name, "overall") if aa else ():
        delta, p = comparison.difference.delta, comparison.difference.p
        if delta is None or p is None or p >= 1 - judgement.policy.confidence or abs(delta) <= judgement.policy.margin:
            continue
        yield Finding(
            level="warning",
            code="unequal_control",
            message=f"the baseline's second run differs from the first by {points(delta)} points, which is more "
            "than the margin, so a candidate's difference may not come from its cache",
        )
