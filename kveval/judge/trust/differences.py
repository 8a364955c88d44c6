"""Finds differences that no cache format can cause: of the baseline to itself, and gains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison, in_words
from kveval.judge.comparison.endpoint import Endpoint, Kind
from kveval.judge.comparison.scope import Scope
from kveval.judge.comparison.verdict import p_label, points
from kveval.judge.run_data import RunData
from kveval.judge.trust.problem import Problem

DIFFERENCE_LEVEL = 0.01
"""Below this p-value, corrected for what is read together, a difference that no cache causes is no chance. The nightly
job must not stop for chance: at the policy's confidence, the noise of one engine would end 3% of nights."""


def unequal_control(
    run: RunData, rows: Iterable[Comparison], policy: Policy, *, level: float = DIFFERENCE_LEVEL
) -> Problem | None:
    """Returns the problem of a baseline whose second run differs from the first.

    The test is that of a candidate's loss, in both directions: beyond the margin, and "no difference" is rejected at
    `level` (Bonferroni over the kinds of score). Two runs of one setting have no such difference, so one of the two is
    not what it is said to be, and it is not known which. Without any change, at most `level` of nights have it.
    """
    overall = (row for row in rows if run.aa and row.variant == run.aa.name and row.scope.level == "overall")
    for row in overall:
        kinds = _kinds(row, policy)
        for one in kinds:
            delta, p = one.difference.delta, one.difference.p
            if delta is None or p is None or p * len(kinds) >= level or abs(delta) <= one.margin:
                continue
            message = (
                f"{row.against}: the baseline's second run differs from the first by more than the margin of "
                f"{points(one.margin)} points and not by chance: {in_words(one, policy.confidence)}. A candidate's "
                "difference need not come from its cache"
            )
            return Problem(row.against, "unequal_control", message)
    return None


def impossible_gains(
    run: RunData, rows: Iterable[tuple[Comparison, Mapping[Kind, float]]], policy: Policy
) -> Iterator[Problem]:
    """Yields one problem for every variant that gains what no cache format can give.

    A lossy cache holds less of the context than the baseline's, so it can answer a question better only by chance, and
    chance takes as many answers as it gives. The errors of a paired difference contain that chance, and the noise of
    both runs. So a gain beyond the margin whose p-value stays below `DIFFERENCE_LEVEL` after Holm shows that something
    else differs: the baseline is broken, or the servers are not equal but for the cache. Without any change, at most
    half of `DIFFERENCE_LEVEL` of nights have one in each of the two panels that Holm covers, and by each score without
    Holm. A variant with its own model is left out, and so is the A/A run, which `unequal_control` judges.

    Args:
        rows: each with its corrected p-values. Where a row has none for a kind of score, because no verdict rests on
            it, only the overall row counts.
    """
    largest: dict[str, tuple[Scope, Endpoint, float]] = {}
    for row, corrected in rows:
        variant = run.manifest.variants[row.variant]
        if variant.role == "aa" or run.has_own_model(variant):
            continue
        for one in _kinds(row, policy):
            uncorrected = one.difference.p if row.scope.level == "overall" else None
            p, delta = corrected.get(one.kind, uncorrected), one.difference.delta
            if p is None or delta is None or delta <= one.margin or p >= DIFFERENCE_LEVEL:
                continue
            if row.variant not in largest or delta > (largest[row.variant][1].difference.delta or 0.0):
                largest[row.variant] = row.scope, one, p
    for name, (scope, one, p) in largest.items():
        place = "" if scope.level == "overall" else f" at {scope}"
        message = (
            f"{name}: scores better than the baseline{place}: {in_words(one, policy.confidence)} ({p_label(p)}). No "
            "cache format causes that: the baseline is broken, or the servers differ in more than the cache"
        )
        yield Problem(name, "impossible_gain", message)


def _kinds(row: Comparison, policy: Policy) -> list[Endpoint]:
    """Returns what the verdict of `row` rests on, and greedy answers in any case: they show a broken server."""
    evidence = row.evidence(policy)
    return [*evidence, *([] if any(one.kind == "greedy" for one in evidence) else [row.greedy])]
