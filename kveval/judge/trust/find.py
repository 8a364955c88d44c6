"""The one place that says which answers of a run cannot be judged. Gate, recommendation, sweep and report ask here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.endpoint import Kind
from kveval.judge.run_data import RunData, incomplete_reason, unanswered_reason
from kveval.judge.trust.answers import answers_change
from kveval.judge.trust.differences import impossible_gains, unequal_control
from kveval.judge.trust.models import other_model
from kveval.judge.trust.problem import Problem
from kveval.judge.trust.server import facts_changed, sentinels_differ
from kveval.run.manifest import VariantRun


def find_problems(
    run: RunData, rows: Sequence[tuple[Comparison, Mapping[Kind, float]]], policy: Policy
) -> tuple[Problem, ...]:
    """Returns what broke in every variant, the baseline first, and what each one's answers show by themselves first.

    Args:
        rows: every variant compared with the baseline, each row with its p-values after Holm; a row without a verdict
            has none.
    """
    found: list[Problem] = []
    for variant in run.baseline_first:
        trusted = not any(one.variant == run.manifest.baseline and one.is_void for one in found)
        is_other = variant.name != run.manifest.baseline
        found += _own_problems(run, variant, policy, against_baseline=is_other and trusted)
        if is_other and variant.role != "aa":
            found += [one for one in [other_model(run, variant)] if one]
    broken = {one.variant for one in found if one.is_void}
    # A control or a baseline that broke by itself explains the difference, or the gain.
    if run.manifest.baseline not in broken:
        if run.aa is None or run.aa.name not in broken:
            found += [one for one in [unequal_control(run, [row for row, _ in rows], policy)] if one]
        found += [one for one in impossible_gains(run, rows, policy) if one.variant not in broken]
    return tuple(found)


def _own_problems(run: RunData, variant: VariantRun, policy: Policy, *, against_baseline: bool) -> list[Problem]:
    incomplete, unanswered = incomplete_reason(variant), unanswered_reason(run, variant, policy)
    found: list[Problem] = []
    if incomplete:
        found = [Problem(variant.name, "incomplete", incomplete)]
    elif unanswered:
        found = [Problem(variant.name, "unanswered", unanswered)]
    change = (
        facts_changed(variant)
        or answers_change(
            run, variant.name, against_baseline=against_baseline, unanswered_limit=policy.max_unanswered_share
        )
        or sentinels_differ(run, variant)
    )
    # What changed in time says more than that the variant was stopped for it.
    return [change, *found] if change else found


def void_of(problems: Iterable[Problem], *variants: str) -> Problem | None:
    """Returns the first problem that makes every comparison between `variants` worthless. None if there is none."""
    return next((one for one in problems if one.is_void and one.variant in variants), None)
