"""What a nightly job is told: every check of a run by policy, and one exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kveval.errors import UsageError, nearest
from kveval.judge.blessed.against_blessed import changes, check_comparable_over_time, contests_over_time
from kveval.judge.blessed.bless import Blessed, load_blessed
from kveval.judge.cold import cold_checks
from kveval.judge.comparison import Comparison
from kveval.judge.diff import Contest, Judgement, contests, judge_run
from kveval.judge.headline import headline
from kveval.judge.pairing import Group
from kveval.judge.policy import policy_of
from kveval.judge.run_data import Run
from kveval.judge.run_health import infrastructure_problem, load_ended_run
from kveval.judge.scores import own_score
from kveval.judge.verdicts import Policy, points
from kveval.run.findings import Finding
from kveval.run.manifest import VariantRun

State = Literal["pass", "regression", "infrastructure", "inconclusive"]
Kind = Literal["quantization", "time", "baseline score", "run", "control"]
EXIT_CODES: Mapping[State, int] = {"pass": 0, "regression": 1, "infrastructure": 3, "inconclusive": 5}
_WORST_LAST: tuple[State, ...] = ("pass", "inconclusive", "infrastructure", "regression")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must hold.

    Attributes:
        kind: quantization: a candidate against the baseline of the same run. time: a variant against itself in the
            blessed run. baseline score: the policy's minimum. run, control: that they ended.
        against: what `variant` was compared with; None where it was not compared.
        blocks: whether it keeps the gate shut; always for a regression or an infrastructure problem.
        comparisons: the rows it rests on.
        contest: the pairs behind them.
    """

    kind: Kind
    variant: str
    state: State
    reason: str
    against: str | None = None
    blocks: bool = True
    comparisons: tuple[Comparison, ...] = ()
    contest: Contest | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """The decision about a run.

    Attributes:
        notes: what a reader must know beside the checks.
    """

    run: Run
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
        return max((check.state for check in self.checks), key=_WORST_LAST.index, default="pass")

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
    over_time: list[Contest] = []
    if blessed:
        check_comparable_over_time(run, blessed)
        over_time = contests_over_time(run, blessed)
    judgement = judge_run(run, policy, over_time)
    checks = (
        *_run_checks(run, policy),
        *_baseline_score(run, policy),
        *(_contest_check(run, "quantization", c, judgement.comparisons, policy) for c in contests(run) if c.judged),
        *(_contest_check(run, "time", c, judgement.over_time, policy) for c in over_time),
    )
    if not any(check.kind in ("quantization", "time") for check in checks):
        raise UsageError(
            f"{path}: has no variant to compare with its baseline {run.manifest.baseline!r}; "
            "allowed: a run with candidates, or --against a blessed file"
        )
    return Gate(run, blessed, judgement, checks, tuple(_notes(run, blessed, judgement)))


def _run_checks(run: Run, policy: Policy) -> Iterator[Check]:
    """What is no variant under test and still must have worked."""
    variants = run.manifest.variants.values()
    if run.manifest.status != "complete" and all(variant.status == "complete" for variant in variants):
        yield Check("run", run.manifest.run_id, "infrastructure", f"the run is {run.manifest.status}: it was cut short")
    for variant in variants:
        problem = infrastructure_problem(run, variant, policy) if variant.role != "candidate" else None
        if problem:
            yield Check("control" if variant.role != "baseline" else "run", variant.name, "infrastructure", problem)


def _baseline_score(run: Run, policy: Policy) -> Iterator[Check]:
    if not policy.min_baseline_score:
        return
    baseline = run.manifest.baseline
    score = own_score(run, baseline, Group("overall"), confidence=policy.confidence)
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
            "baseline score", baseline, "inconclusive",
            f"{points(score.mean)} points where at least {least} are wanted; chance could explain it",
        )  # fmt: skip


def _contest_check(
    run: Run, kind: Literal["quantization", "time"], contest: Contest, rows: tuple[Comparison, ...], policy: Policy
) -> Check:
    mine = tuple(row for row in rows if row.variant == contest.variant)
    answer = headline(mine, policy)
    variants: list[VariantRun] = [run.manifest.variants[contest.variant]]
    if kind == "quantization":
        variants.append(run.manifest.variants[run.manifest.baseline])
    problem = next((p for p in (infrastructure_problem(run, v, policy) for v in variants) if p), None)
    overall = next(row for row in mine if row.group.level == "overall")
    state: State = "regression" if answer.word == "fail" else answer.word
    reason, blocks = answer.reason, True
    if problem:
        state = "infrastructure"
        reason = f"{problem}; of what was answered: {answer.reason}" if answer.word == "fail" else problem
    elif state == "inconclusive":
        # What is let through must at least have been measured.
        no_evidence = overall.difference.low is None or overall.sensitive.low is None
        blocks = policy.inconclusive == "block" or no_evidence
    return Check(kind, contest.variant, state, reason, contest.against, blocks, mine, contest)


def _notes(run: Run, blessed: Blessed | None, judgement: Judgement) -> Iterator[Finding]:
    policy = judgement.policy
    for name, variant in run.manifest.variants.items():
        if variant.facts.is_emulated and variant.role == "candidate":
            yield Finding(
                level="warning",
                code="emulated",
                message=f"{name} is emulated: the numerics of the format, stored as before; no memory is saved, and "
                "the kernel of a native cache is not tested",
            )
        for finding in variant.findings:
            if finding.level != "info":
                yield finding.model_copy(update={"message": f"{name}: {finding.message}"})
    for check in cold_checks(run):
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


def _unequal_control(run: Run, judgement: Judgement) -> Iterator[Finding]:
    aa = run.variant("aa", run.manifest.baseline)
    for comparison in judgement.of(aa.name, "overall") if aa else ():
        delta, p = comparison.difference.delta, comparison.difference.p
        if delta is None or p is None or p >= 1 - judgement.policy.confidence or abs(delta) <= judgement.policy.margin:
            continue
        yield Finding(
            level="warning",
            code="unequal_control",
            message=f"the baseline's second run differs from the first by {points(delta)} points, more than the "
            "margin: what differs for a candidate need not come from its cache",
        )
