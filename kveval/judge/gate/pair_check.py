"""The check of one variant against what it is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import headline
from kveval.judge.comparison.variant_pair import VariantPair
from kveval.judge.gate.check import Check, State
from kveval.judge.run_data import RunData
from kveval.judge.run_health import infrastructure_problem
from kveval.run.manifest import VariantRun


def check_pair(
    kind: str,
    pair: VariantPair,
    comparisons: Iterable[Comparison],
    measured: Iterable[VariantRun],
    run: RunData,
    policy: Policy,
) -> Check:
    """Returns the check of `pair`: what its headline says, or what broke.

    Args:
        comparisons: the rows of this pair, among others.
        measured: the variants of `run` that must have answered.
    """
    rows = tuple(row for row in comparisons if row.variant == pair.variant)
    answer = headline(rows, policy)
    problem = next((found for found in (infrastructure_problem(run, one, policy) for one in measured) if found), None)
    state: State = "regression" if answer.word == "fail" else answer.word
    reason, blocks = answer.reason, True
    if problem:
        state = "infrastructure"
        reason = f"{problem}; of what was answered: {answer.reason}" if answer.word == "fail" else problem
    elif state == "undecided":
        # `undecided: allow` lets through only what was measured.
        overall = next(row for row in rows if row.scope.level == "overall")
        no_evidence = overall.difference.low is None or overall.sensitive.low is None
        blocks = policy.undecided == "block" or no_evidence
    return Check(kind, pair.variant, state, reason, pair.against, blocks, rows, pair)
