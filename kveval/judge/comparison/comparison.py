"""Scores one variant or compares two over one scope: scores, difference, flips, outcomes, noise and attribution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.endpoint import KIND_WORDS, Attribution, Endpoint, Kind, endpoint
from kveval.judge.comparison.pairing import UNITS, Side, answered_by
from kveval.judge.comparison.scope import Level, Scope
from kveval.judge.comparison.verdict import Verdict
from kveval.judge.statistics.clusters import Score
from kveval.judge.statistics.difference import Difference
from kveval.judge.statistics.hypothesis_tests import Flips, flips
from kveval.run.records import OUTCOMES


@dataclass(frozen=True, slots=True)
class Noise:
    """Shows how much the baseline differs from a second run of itself.

    Attributes:
        n: samples that the baseline, its second run and the candidate answered.
        aa, candidate: flips against the baseline.
        aa_identical, candidate_identical: share of outputs that equal the baseline's, character by character.
    """

    n: int
    aa: Flips
    candidate: Flips
    aa_identical: float
    candidate_identical: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares one variant with another over one scope.

    Samples that one side did not answer (an engine error, or no record) count in `asked` and in `outcomes`, but not in
    scores, differences and flips: an outage is not a loss of quality. They count against a pass instead. Samples
    without a right answer count only in `unscored`, `outcomes`, `identical` and `noise`.

    Attributes:
        against: what `variant` is compared with: the run's baseline, or itself in a blessed run.
        confidence: of the intervals, and of the verdict.
        greedy: over all samples that have a right answer.
        expected: one for each unit, over the samples that have an expected score.
        rest: the greedy score of the samples that have no expected score, if others have one.
        shown: the kind of score that the row shows, and that its verdict rests on.
        cells: how many cells the scope has.
        unscored: samples of the scope that have no right answer.
        identical: share of outputs that equal the baseline's, character by character. None without samples.
        outcomes: by side ("baseline", "candidate"), the count of each outcome; "missing" means no record.
        noise: None without an A/A run that covers the scope.
        is_advisory: whether the policy only reports the row, which then is never in the way of a pass.
        verdict: None for a control or an A/A run, which are not judged.
    """

    variant: str
    against: str
    scope: Scope
    confidence: float
    greedy: Endpoint
    expected: tuple[Endpoint, ...]
    rest: Endpoint | None
    shown: Endpoint
    cells: int
    unscored: int
    flips: Flips
    identical: float | None
    outcomes: dict[str, dict[str, int]]
    noise: Noise | None
    is_advisory: bool = False
    verdict: Verdict | None = None

    def evidence(self, policy: Policy) -> tuple[Endpoint, ...]:
        """Returns what a verdict rests on. All of it must pass, and any of it can fail."""
        if policy.evidence == "greedy" or not self.expected:
            return (self.greedy,)
        if policy.evidence == "both":
            return (*self.expected, self.greedy)
        return self.expected if self.rest is None else (*self.expected, self.rest)

    @property
    def beside(self) -> tuple[Endpoint, ...]:
        """Returns the kinds of score that the row has and does not show."""
        found = (*self.expected, *([self.rest] if self.rest else []), self.greedy)
        return tuple(one for one in found if one is not self.shown)

    @property
    def asked(self) -> int:
        return self.shown.asked

    @property
    def difference(self) -> Difference:
        return self.shown.difference

    @property
    def sensitive(self) -> Difference:
        return self.shown.sensitive

    @property
    def baseline_score(self) -> Score:
        return self.shown.baseline_score

    @property
    def candidate_score(self) -> Score:
        return self.shown.candidate_score

    @property
    def insensitive_cells(self) -> tuple[str, ...]:
        return self.shown.insensitive_cells

    @property
    def attribution(self) -> Attribution | None:
        return self.shown.attribution


def compare(
    table: pd.DataFrame,
    variant: str,
    against: str,
    scope: Scope,
    *,
    policy: Policy,
    confidence: float,
    control: str | None = None,
) -> Comparison:
    """Compares the sides of `table`, which `pair` made, over all of its rows. The result has no verdict yet.

    All intervals have this `confidence`.
    """
    scored, both = table[table["scored"]], answered_by(table, "baseline", "candidate")

    def over(rows: pd.DataFrame, kind: Kind) -> Endpoint:
        return endpoint(rows, kind, policy=policy, confidence=confidence, control=control)

    units = [unit for unit in UNITS if (scored["unit"] == unit).any()]
    without = scored[scored["unit"].isna()]
    greedy = over(scored, "greedy")
    comparison = Comparison(
        variant=variant,
        against=against,
        scope=scope,
        confidence=confidence,
        greedy=greedy,
        expected=tuple(over(scored[scored["unit"] == unit], unit) for unit in units),
        rest=over(without, "greedy") if units and len(without) else None,
        shown=greedy,
        cells=table.groupby(["task", "context_length"]).ngroups,
        unscored=len(table) - len(scored),
        flips=_flips(both[both["scored"]], "candidate"),
        identical=float(both["candidate_identical"].mean()) if len(both) else None,
        outcomes={side: count_outcomes(table[f"{side}_outcome"]) for side in ("baseline", "candidate")},
        noise=_noise(table),
        is_advisory=scope.family in policy.advisory,
    )
    return replace(comparison, shown=comparison.evidence(policy)[0])


def _flips(pairs: pd.DataFrame, side: Side) -> Flips:
    return flips(pairs["baseline_correct"], pairs[f"{side}_correct"])


def count_outcomes(outcomes: pd.Series) -> dict[str, int]:
    """Counts every outcome, also those that did not occur. "missing" means no record."""
    counts = outcomes.value_counts()
    return {outcome: int(counts.get(outcome, 0)) for outcome in (*OUTCOMES, "missing")}


def _noise(table: pd.DataFrame) -> Noise | None:
    if "aa_answered" not in table:
        return None
    covered = answered_by(table, "baseline", "candidate", "aa")
    if covered.empty:
        return None
    return Noise(
        n=len(covered),
        aa=_flips(covered, "aa"),
        candidate=_flips(covered, "candidate"),
        aa_identical=float(covered["aa_identical"].mean()),
        candidate_identical=float(covered["candidate_identical"].mean()),
    )


def at_levels(rows: Iterable[Comparison], *levels: Level) -> list[Comparison]:
    """Returns the rows at these levels, one level after the other."""
    rows = list(rows)
    return [row for level in levels for row in rows if row.scope.level == level]


def in_words(shown: Endpoint, confidence: float) -> str:
    """Returns '-5.7 points, 95% interval -9.2 to -2.2, 300 questions about 30 contexts'."""
    difference = shown.difference
    interval = (
        f", {confidence:.0%} interval {100 * difference.low:+.1f} to {100 * difference.high:+.1f}"
        if difference.low is not None and difference.high is not None
        else ""
    )
    size = f"{difference.n:,} questions about {difference.clusters:,} contexts"
    kind = "" if shown.kind == "greedy" else f"{KIND_WORDS[shown.kind]} "
    return f"{kind}{100 * (difference.delta or 0.0):+.1f} points{interval}, {size}"
