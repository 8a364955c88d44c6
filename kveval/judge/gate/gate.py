"""Judges a run by every rule of the gate, and gives one exit code and what a reader must know beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.config.judge import Policy
from kveval.errors import ConfigError, InternalError, UsageError, nearest
from kveval.judge.blessed.against_blessed import changes, check_comparable, pairs_with_blessed
from kveval.judge.blessed.bless import Blessed, load_blessed
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.comparison.pairing import VariantPair
from kveval.judge.evidence.cold import cold_comparisons
from kveval.judge.gate.check import EXIT_CODES, WORST_LAST, Check, State, find_rules
from kveval.judge.run_data import RunData, load_ended_run, policy_of
from kveval.judge.trust.differences import unequal_control
from kveval.run.facts import Finding


@dataclass(frozen=True, slots=True)
class Gate:
    """The decision about a run. `notes` are findings that a reader must know."""

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
        """The worst state of all checks. A proven loss is worse than a broken run, and that is worse than undecided."""
        return max((check.state for check in self.checks), key=WORST_LAST.index)

    @property
    def exit_code(self) -> int:
        blocking = {EXIT_CODES[check.state] for check in self.checks if check.state != "pass" and check.blocks}
        return min(blocking, default=EXIT_CODES["pass"])


def gate(path: Path, *, against: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Gate:
    """Judges a run by its own policy, changed by `overrides`.

    With a blessed file (`against`), every blessed variant is also compared with its earlier answers.

    Raises:
        RunDirectoryError: the run cannot be judged: it is broken, has no samples, or is still being written.
        BlessedFileError: `against` is broken, or was edited by hand.
        ConfigError, UsageError: a policy that is not allowed, or nothing to compare.
        IncomparableError: the blessed run asked something else.
        InternalError: no rule checked one of the pairs that must be judged.
    """
    run = load_ended_run(path)
    policy = policy_of(run.manifest, overrides)
    families = sorted(set(run.samples["family"]))
    for key in ("margins", "tiers"):
        for family in (overrides or {}).get(key, {}):
            if family not in families:
                what = key.removesuffix("s")
                raise ConfigError(f"{what} of {family!r}: this run has no such family; {nearest(family, families)}")
    blessed = load_blessed(against) if against else None
    blessed_pairs: list[VariantPair] = []
    if blessed:
        check_comparable(run, blessed)
        blessed_pairs = pairs_with_blessed(run, blessed)
    return checked(run, judge_run(run, policy, blessed_pairs), blessed, blessed_pairs)


def checked(
    run: RunData,
    judgement: Judgement,
    blessed: Blessed | None = None,
    blessed_pairs: Sequence[VariantPair] = (),
) -> Gate:
    """Applies every rule of the gate to a judged run.

    Raises:
        UsageError: nothing to compare.
        InternalError: no rule checked one of the pairs that must be judged.
    """
    to_judge = [*(pair for pair in judgement.pairs if pair.judged), *blessed_pairs]
    if not to_judge:
        raise UsageError(
            f"{run.path}: has no variant to compare with its baseline {run.manifest.baseline!r}; "
            "use a run with candidates, or --against with a blessed file"
        )
    checks = tuple(check for rule in find_rules() for check in rule.check(run, judgement))
    checked = {(check.variant, check.against) for check in checks}
    unchecked = [pair for pair in to_judge if (pair.variant, pair.against) not in checked]
    if unchecked:
        names = ", ".join(f"{pair.variant} against {pair.against}" for pair in unchecked)
        raise InternalError(f"{run.path}: no rule of the gate checked {names}, so nothing can be said of it")
    return Gate(run, blessed, judgement, checks, tuple(notes(run, blessed, judgement)))


def notes(run: RunData, blessed: Blessed | None, judgement: Judgement) -> Iterator[Finding]:
    """Yields what a reader must know beside the checks."""
    policy = judgement.policy
    for name, variant in run.manifest.variants.items():
        if variant.facts.is_emulated and variant.role == "candidate":
            yield Finding.warning(
                "emulated",
                f"{name} is emulated: it has the numerics of the format, but saves no memory, and "
                "the kernel of a native cache was not tested",
            )
        for finding in variant.findings:
            if finding.level != "info":
                yield finding.model_copy(update={"message": f"{name}: {finding.message}"})
    for check in cold_comparisons(run):
        if check.finding:
            yield check.finding.model_copy(update={"message": f"{check.variant}: {check.finding.message}"})
    suspected = unequal_control(run, judgement.comparisons, policy, level=1 - policy.confidence)
    if suspected and not judgement.problems_of(suspected.variant):
        yield Finding.warning("unequal_control", f"{suspected.message}; chance explains it once in a while")
    for code, named in (("unused_margin", policy.margins), ("unused_tier", policy.tiers)):
        unused = sorted(set(named) - set(run.samples["family"]))
        if unused:
            yield Finding.warning(code, f"no family of this run is called {', '.join(unused)}")
    if blessed:
        yield from changes(run, blessed, policy)
