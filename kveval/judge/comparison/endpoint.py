"""What is compared over the samples of one scope: a score of one kind, with its difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.pairing import Side, Unit
from kveval.judge.comparison.scope import Scope
from kveval.judge.statistics.clusters import Score, mean_score
from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.run.records import ExpectedMethod

Kind = Literal["greedy"] | Unit
"""``greedy``: the score of the decoded answer. The others are units of the expected score."""

KIND_WORDS: dict[Kind, str] = {
    "greedy": "greedy answers",
    "probability": "expected score (probability of the right answer)",
    "token_accuracy": "expected token accuracy",
    "entries": "expected score (entries before the first error)",
}

# At or beyond these baseline scores a cell cannot show a loss.
FLOOR, CEILING = 0.05, 0.99


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
class OutputParts:
    """Tells what calls and records say from how they are written: names and values from the format around them.

    Attributes:
        values: the difference of the expected score over the samples that have both parts.
        format: that of the probability of the output's format. No score counts it.
    """

    values: Difference
    format: Difference


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Compares one kind of score over one scope. Scores of different kinds are never averaged.

    Attributes:
        asked: samples that should have such a score on both sides. ``difference.n`` of them do.
        baseline_score, candidate_score: over the samples with a score on both sides.
        sensitive: the difference over the cells that can show a loss.
        insensitive_cells: the other cells, each as "task at N tokens: why".
        temperature: of the probabilities; `method`: how they were read. None for greedy answers.
        aa: the difference of the baseline's second run from the first. None without an A/A run that covers the scope.
        attribution: None without an emulated control.
        margin: the largest loss of this kind that the policy accepts here.
        parts: None where no sample is a call or a record.
    """

    kind: Kind
    asked: int
    baseline_score: Score
    candidate_score: Score
    difference: Difference
    sensitive: Difference
    insensitive_cells: tuple[str, ...]
    temperature: float | None
    method: ExpectedMethod | None
    aa: Difference | None
    attribution: Attribution | None
    margin: float
    parts: OutputParts | None


def endpoint(table: pd.DataFrame, kind: Kind, *, policy: Policy, confidence: float, control: str | None) -> Endpoint:
    """Compares the sides of `table`, which `pair` made, over all of its rows: samples that have this kind of score."""
    column = "score" if kind == "greedy" else "expected"

    def paired(rows: pd.DataFrame, first: Side, second: Side, margin: float = 0.0, column: str = column) -> Difference:
        return paired_difference(
            rows[f"{first}_{column}"],
            rows[f"{second}_{column}"],
            rows["haystack_id"],
            confidence=confidence,
            margin=margin,
            rare=kind == "greedy",
            alike=_expected_differences(rows, first, second) if kind == "greedy" else None,
        )

    def with_score(*sides: Side) -> pd.DataFrame:
        needed = [f"{side}_answered" for side in sides]
        rows = table[table[needed].all(axis="columns")]
        return rows.dropna(subset=[f"{side}_{column}" for side in sides])

    def mean(side: Side) -> Score:
        return mean_score(pairs[f"{side}_{column}"], pairs["haystack_id"], confidence=confidence)

    pairs = with_score("baseline", "candidate")
    margin = policy.margin_over(
        {str(family): int(count) for family, count in table["family"].value_counts().items()},
        {str(family): float(score) for family, score in pairs.groupby("family")[f"baseline_{column}"].mean().items()},
        None if kind == "greedy" else kind,
    )
    insensitive, keep = [], pd.Series(True, index=pairs.index)
    for _, cell in pairs.groupby(["task", "context_length"]):
        why = _insensitive(cell[f"baseline_{column}"].mean(), cell[f"candidate_{column}"].mean())
        if why:
            place = Scope("cell", task=cell["task"].iloc[0], context_length=int(cell["context_length"].iloc[0]))
            insensitive.append(f"{place}: {why}")
            keep[cell.index] = False
    repeated = with_score("baseline", "aa") if "aa_answered" in table else table.iloc[:0]
    attribution = None
    if control is not None:
        three = with_score("baseline", "candidate", "control")
        attribution = Attribution(
            control,
            total=paired(three, "baseline", "candidate"),
            format=paired(three, "baseline", "control"),
            kernel=paired(three, "control", "candidate"),
        )
    formatted = pairs.iloc[:0] if kind == "greedy" else pairs.dropna(subset=["baseline_format", "candidate_format"])
    return Endpoint(
        kind=kind,
        asked=len(table),
        baseline_score=mean("baseline"),
        candidate_score=mean("candidate"),
        difference=paired(pairs, "baseline", "candidate", margin),
        sensitive=paired(pairs[keep], "baseline", "candidate", margin),
        insensitive_cells=tuple(insensitive),
        temperature=None if kind == "greedy" else _only(table["temperature"]),
        method=None if kind == "greedy" else _only(table["method"]),
        aa=paired(repeated, "baseline", "aa") if len(repeated) else None,
        attribution=attribution,
        margin=margin,
        parts=OutputParts(
            values=paired(formatted, "baseline", "candidate"),
            format=paired(formatted, "baseline", "candidate", column="format"),
        )
        if len(formatted)
        else None,
    )


def _expected_differences(rows: pd.DataFrame, first: Side, second: Side) -> pd.Series | None:
    """Returns the differences of the expected scores, in one unit. None if a sample has none."""
    differences = rows[f"{second}_expected"] - rows[f"{first}_expected"]
    is_whole = len(rows) and differences.notna().all() and rows["unit"].nunique() == 1
    return differences if is_whole else None


def _only(values: pd.Series) -> Any:
    """Returns the one value in a column. None if there is no value, or more than one."""
    found = values.dropna().unique().tolist()
    return found[0] if len(found) == 1 else None


def _insensitive(baseline: float, candidate: float) -> str | None:
    """Returns why a cell cannot show a loss. A candidate below the ceiling does show one."""
    if baseline <= FLOOR:
        return f"too hard: the baseline gets nearly nothing right ({100 * baseline:.1f})"
    if baseline >= CEILING and candidate >= CEILING:
        return f"too easy: the baseline gets nearly everything right ({100 * baseline:.1f})"
    return None
