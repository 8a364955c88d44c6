"""What a nightly job is told: every check of a run by policy, and one exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kveval.config.judge import Policy
from kveval.errors import UsageError, nearest
from kveval.judge.blessed.against_blessed import check_comparable, pairs_with_blessed
from kveval.judge.blessed.bless import Blessed, load_blessed
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import headline
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.own_score import own_score
from kveval.judge.comparison.scope import Scope
from kveval.judge.comparison.variant_pair import VariantPair, pairs_with_baseline
from kveval.judge.comparison.verdict import points
from kveval.judge.gate.check import EXIT_CODES, WORST_LAST, Check, State
from kveval.judge.gate.notes import notes
from kveval.judge.policy import policy_of
from kveval.judge.run_data import RunData
from kveval.judge.run_health import infrastructure_problem, load_ended_run
from kveval.run.findings import Finding
from kveval.run.manifest import VariantRun


@dataclass(frozen=True, slots=True)
class Gate:
    """The decision about a run.

    Attributes:
        notes: what a reader must know beside the checks.
    """

    run: RunData
    blessed: Blessed | None
    judgement: Judgement
    checks: tuple[Check, ...]
    notes: tuple[Finding, ...]

    @property
    def policy(self) -> Policy:
        return self.judgement.policy

    @property
    def state(self) -> State:
        """The worst of the checks: a proven loss before what was not measured, that before what stays open."""
        return max((check.state for check in self.checks), key=WORST_LAST.index, default="pass")

    @property
    def exit_code(self) -> int:
        blocking = {EXIT_CODES[check.state] for check in self.checks if check.state != "pass" and check.blocks}
        return min(blocking, default=0)


def gate(path: Path, *, against: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Gate:
    """Judges a run by its own policy, changed by `overrides`.

    Args:
        against: a blessed file; then every blessed variant is also compared with itself.

    Raises:
        RunDirectoryError: not a run that can be judged: none, broken, still being written, or without samples.
        BlessedFileError: `against` is broken, or was edited by hand.
        ConfigError, UsageError: a policy that is not allowed, or no check to make.
        IncomparableError: the blessed run asked something else.
    """
    run = load_ended_run(path)
    policy = policy_of(run.manifest, overrides)
    families = sorted(set(run.samples["family"]))
    for family in (overrides or {}).get("margins", {}):
        if family not in families:
            raise UsageError(f"margin of {family!r}: no family of this run; {nearest(family, families)}")
    blessed = load_blessed(against) if against else None
    over_time: list[VariantPair] = []
    if blessed:
        check_comparable(run, blessed)
        over_time = pairs_with_blessed(run, blessed)
    judgement = judge_run(run, policy, over_time)
    checks = (
        *_run_checks(run, policy),
        *_baseline_score(run, policy),
        *(
            _contest_check(run, "quantization", c, judgement.comparisons, policy)
            for c in pairs_with_baseline(run)
            if c.judged
        ),
        *(_contest_check(run, "time", c, judgement.against_blessed, policy) for c in over_time),
    )
    if not any(check.kind in ("quantization", "time") for check in checks):
        raise UsageError(
            f"{path}: has no variant to compare with its baseline {run.manifest.baseline!r}; "
            "allowed: a run with candidates, or --against a blessed file"
        )
    return Gate(run, blessed, judgement, checks, tuple(notes(run, blessed, judgement)))


def _run_checks(run: RunData, policy: Policy) -> Iterator[Check]:
    """What is no variant under test and still must have worked."""
    variants = run.manifest.variants.values()
    if run.manifest.status != "complete" and all(variant.status == "complete" for variant in variants):
        yield Check("run", run.manifest.run_id, "infrastructure", f"the run is {run.manifest.status}: it was cut short")
    for variant in variants:
        problem = infrastructure_problem(run, variant, policy) if variant.role != "candidate" else None
        if problem:
            yield Check("control" if variant.role != "baseline" else "run", variant.name, "infrastructure", problem)


def _baseline_score(run: RunData, policy: Policy) -> Iterator[Check]:
    if not policy.min_baseline_score:
        return
    baseline = run.manifest.baseline
    score = own_score(run, baseline, Scope("overall"), confidence=policy.confidence)
    least = points(policy.min_baseline_score)
    if score.mean is None:
        return
    if score.mean >= policy.min_baseline_score:
        yield Check("baseline score", baseline, "pass", f"{points(score.mean)} points, at least {least} wanted")
    elif score.high is not None and score.high < policy.min_baseline_score:
        yield Check(
            "baseline score", baseline, "regression",
            f"{points(score.mean)} points, below the minimum of {least} and not by chance; "
            "nothing can be read off a comparison with it",
        )  # fmt: skip
    else:
        yield Check(
            "baseline score", baseline, "undecided",
            f"{points(score.mean)} points where at least {least} are wanted; chance could explain it",
        )  # fmt: skip


def _contest_check(
    run: RunData,
    kind: Literal["quantization", "time"],
    contest: VariantPair,
    rows: tuple[Comparison, ...],
    policy: Policy,
) -> Check:
    mine = tuple(row for row in rows if row.variant == contest.variant)
    answer = headline(mine, policy)
    variants: list[VariantRun] = [run.manifest.variants[contest.variant]]
    if kind == "quantization":
        variants.append(run.manifest.variants[run.manifest.baseline])
    problem = next((p for p in (infrastructure_problem(run, v, policy) for v in variants) if p), None)
    overall = next(row for row in mine if row.scope.level == "overall")
    state: State = "regression" if answer.word == "fail" else answer.word
    reason, blocks = answer.reason, True
    if problem:
        state = "infrastructure"
        reason = f"{problem}; of what was answered: {answer.reason}" if answer.word == "fail" else problem
    elif state == "undecided":
        # What is let through must at least have been measured.
        no_evidence = overall.difference.low is None or overall.sensitive.low is None
        blocks = policy.undecided == "block" or no_evidence
    return Check(kind, contest.variant, state, reason, contest.against, blocks, mine, contest)
