"""Two variants over one scope of samples: scores, difference, flips, outcomes, noise and attribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.pairing import Side, answered_by
from kveval.judge.comparison.scope import Scope
from kveval.judge.comparison.verdict import Verdict, points
from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.judge.statistics.flips import Flips, flips
from kveval.judge.statistics.score import Score, mean_score
from kveval.run.records import OUTCOMES

# At or beyond these baseline scores a cell cannot show a loss.
FLOOR, CEILING = 0.05, 0.99


@dataclass(frozen=True, slots=True)
class Noise:
    """The baseline against a second run of itself, over the samples the second run covers.

    Attributes:
        n: samples that baseline, second run and candidate answered.
        aa, candidate: flips against the baseline.
        aa_identical, candidate_identical: share of outputs equal to the baseline's, character by character.
    """

    n: int
    aa: Flips
    candidate: Flips
    aa_identical: float
    candidate_identical: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """A loss divided by the emulated control: format (baseline to control) plus kernel (control to candidate).

    All three over the samples that all of them answered, so that the parts add up.
    """

    control: str
    total: Difference
    format: Difference
    kernel: Difference

    def blames(self) -> Literal["format", "kernel", "both"] | None:
        """Which part lost for sure: its interval lies below 0. None when neither's does."""
        format_lost, kernel_lost = (part.high is not None and part.high < 0 for part in (self.format, self.kernel))
        if format_lost and kernel_lost:
            return "both"
        return "format" if format_lost else "kernel" if kernel_lost else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One variant over one scope of samples, against what it is paired with.

    Samples that one side did not answer (an engine error, or no record) are in `asked` and in `outcomes` and not in
    scores, differences and flips: an outage is not a loss of quality. They count against a pass instead. Samples
    without a right answer are in `unscored`, `outcomes`, `identical` and `noise` alone.

    Attributes:
        against: what stands on the baseline's side: the run's baseline, or the same variant of an earlier run.
        asked: samples of the scope that have a right answer; ``difference.n`` of them were answered by both sides.
        unscored: samples of the scope that have none.
        baseline_score, candidate_score: over the samples both answered.
        sensitive: the difference over the cells that can show a loss.
        insensitive_cells: the others, "task at N tokens: why".
        identical: share of outputs equal to the baseline's, character by character; None without samples.
        outcomes: by side ("baseline", "candidate"), count by outcome, "missing" for samples without a record.
        noise: None without an A/A run that covers the scope.
        attribution: None without an emulated control.
        verdict: None for controls and A/A runs, which are controls.
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
    """Compares the sides of `table`, as `pair` made it, over all of its rows; without a verdict yet."""
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
        baseline_score=_score(pairs, "baseline", policy),
        candidate_score=_score(pairs, "candidate", policy),
        difference=_difference(pairs, "baseline", "candidate", policy),
        sensitive=_difference(pairs[keep], "baseline", "candidate", policy),
        insensitive_cells=tuple(insensitive),
        flips=_flips(pairs, "candidate"),
        identical=float(both["candidate_identical"].mean()) if len(both) else None,
        outcomes={side: _outcomes(table[f"{side}_outcome"]) for side in ("baseline", "candidate")},
        noise=_noise(table),
        attribution=_attribution(scored, control, policy),
    )


def _insensitive(baseline: float, candidate: float) -> str | None:
    """Why a cell cannot show a loss. A ceiling that the candidate has left does show one."""
    if baseline <= FLOOR:
        return f"the baseline is at the floor ({points(baseline)})"
    if baseline >= CEILING and candidate >= CEILING:
        return f"the baseline is at the ceiling ({points(baseline)})"
    return None


def _score(pairs: pd.DataFrame, side: Side, policy: Policy) -> Score:
    return mean_score(pairs[f"{side}_score"], pairs["haystack_id"], confidence=policy.confidence)


def _difference(pairs: pd.DataFrame, first: Side, second: Side, policy: Policy) -> Difference:
    return paired_difference(
        pairs[f"{first}_score"], pairs[f"{second}_score"], pairs["haystack_id"], confidence=policy.confidence
    )


def _flips(pairs: pd.DataFrame, side: Side) -> Flips:
    return flips(pairs["baseline_correct"], pairs[f"{side}_correct"])


def _outcomes(outcomes: pd.Series) -> dict[str, int]:
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
