"""Scores one variant or compares two over one scope: scores, difference, flips, outcomes, noise and attribution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.pairing import Side, answered_by, has_right_answer
from kveval.judge.comparison.scope import Level, Scope, in_scope
from kveval.judge.comparison.verdict import Verdict, points
from kveval.judge.run_data import RunData
from kveval.judge.statistics.clusters import Score, mean_score
from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.judge.statistics.hypothesis_tests import Flips, flips
from kveval.run.records import OUTCOMES

# At or beyond these baseline scores a cell cannot show a loss.
FLOOR, CEILING = 0.05, 0.99


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
class Attribution:
    """Splits a loss by the emulated control: format (baseline to control) plus kernel (control to candidate).

    All three differences cover the samples that all three variants answered, so that the parts add up.
    """

    control: str
    total: Difference
    format: Difference
    kernel: Difference

    def blames(self) -> Literal["format", "kernel", "both"] | None:
        """Returns the part whose interval lies below 0, so that it surely lost. None if neither did."""
        format_lost, kernel_lost = (part.high is not None and part.high < 0 for part in (self.format, self.kernel))
        if format_lost and kernel_lost:
            return "both"
        return "format" if format_lost else "kernel" if kernel_lost else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares one variant with another over one scope.

    Samples that one side did not answer (an engine error, or no record) count in `asked` and in `outcomes`, but not in
    scores, differences and flips: an outage is not a loss of quality. They count against a pass instead. Samples
    without a right answer count only in `unscored`, `outcomes`, `identical` and `noise`.

    Attributes:
        against: what `variant` is compared with: the run's baseline, or itself in a blessed run.
        asked: samples of the scope that have a right answer. Both sides answered ``difference.n`` of them.
        unscored: samples of the scope that have no right answer.
        baseline_score, candidate_score: over the samples that both answered.
        sensitive: the difference over the cells that can show a loss.
        insensitive_cells: the other cells, each as "task at N tokens: why".
        identical: share of outputs that equal the baseline's, character by character. None without samples.
        outcomes: by side ("baseline", "candidate"), the count of each outcome; "missing" means no record.
        noise: None without an A/A run that covers the scope.
        attribution: None without an emulated control.
        verdict: None for a control or an A/A run, which are not judged.
    """

    variant: str
    against: str
    scope: Scope
    asked: int
    unscored: int
    baseline_score: Score
    candidate_score: Score
    difference: Difference
    sensitive: Difference
    insensitive_cells: tuple[str, ...]
    flips: Flips
    identical: float | None
    outcomes: dict[str, dict[str, int]]
    noise: Noise | None
    attribution: Attribution | None
    verdict: Verdict | None = None


def compare(
    table: pd.DataFrame, variant: str, against: str, scope: Scope, *, policy: Policy, control: str | None = None
) -> Comparison:
    """Compares the sides of `table`, which `pair` made, over all of its rows. The result has no verdict yet."""
    scored, both = table[table["scored"]], answered_by(table, "baseline", "candidate")
    pairs = both[both["scored"]]
    insensitive, keep = [], pd.Series(True, index=pairs.index)
    for _, cell in pairs.groupby(["task", "context_length"]):
        why = _insensitive(cell["baseline_score"].mean(), cell["candidate_score"].mean())
        if why:
            place = Scope("cell", task=cell["task"].iloc[0], context_length=int(cell["context_length"].iloc[0]))
            insensitive.append(f"{place}: {why}")
            keep[cell.index] = False
    return Comparison(
        variant=variant,
        against=against,
        scope=scope,
        asked=len(scored),
        unscored=len(table) - len(scored),
        baseline_score=mean_score(pairs["baseline_score"], pairs["haystack_id"], confidence=policy.confidence),
        candidate_score=mean_score(pairs["candidate_score"], pairs["haystack_id"], confidence=policy.confidence),
        difference=_difference(pairs, "baseline", "candidate", policy),
        sensitive=_difference(pairs[keep], "baseline", "candidate", policy),
        insensitive_cells=tuple(insensitive),
        flips=_flips(pairs, "candidate"),
        identical=float(both["candidate_identical"].mean()) if len(both) else None,
        outcomes={side: count_outcomes(table[f"{side}_outcome"]) for side in ("baseline", "candidate")},
        noise=_noise(table),
        attribution=_attribution(scored, control, policy),
    )


def _insensitive(baseline: float, candidate: float) -> str | None:
    """Returns why a cell cannot show a loss. A candidate below the ceiling does show one."""
    if baseline <= FLOOR:
        return f"the baseline is at the floor ({points(baseline)})"
    if baseline >= CEILING and candidate >= CEILING:
        return f"the baseline is at the ceiling ({points(baseline)})"
    return None


def _difference(pairs: pd.DataFrame, first: Side, second: Side, policy: Policy) -> Difference:
    return paired_difference(
        pairs[f"{first}_score"], pairs[f"{second}_score"], pairs["haystack_id"], confidence=policy.confidence
    )


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


def _attribution(table: pd.DataFrame, control: str | None, policy: Policy) -> Attribution | None:
    if control is None:
        return None
    pairs = answered_by(table, "baseline", "candidate", "control")
    return Attribution(
        control=control,
        total=_difference(pairs, "baseline", "candidate", policy),
        format=_difference(pairs, "baseline", "control", policy),
        kernel=_difference(pairs, "control", "candidate", policy),
    )


def at_levels(rows: Iterable[Comparison], *levels: Level) -> list[Comparison]:
    """Returns the rows at these levels, one level after the other."""
    rows = list(rows)
    return [row for level in levels for row in rows if row.scope.level == level]


def own_score(run: RunData, variant: str, scope: Scope, *, confidence: float) -> Score:
    """Returns the mean score of `variant` over the samples of `scope` that it answered and that have a right answer.

    An engine error is no score of 0: an outage is not a loss of quality.
    """
    asked = in_scope(run.samples[has_right_answer(run.samples)], scope)
    records = run.records[variant]
    answered = records.index[(records["outcome"] != "engine_error").to_numpy(dtype=bool)].intersection(asked.index)
    return mean_score(
        records.loc[answered, "score"].astype(float), asked.loc[answered, "haystack_id"], confidence=confidence
    )
