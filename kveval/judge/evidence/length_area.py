"""The mean score over context lengths: the area under the curve of score against the logarithm of the length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kveval.judge.comparison.pairing import answered_by, pair_variant
from kveval.judge.run_data import RunData
from kveval.judge.statistics.difference import paired_difference

_FEWEST_LENGTHS = 2


@dataclass(frozen=True, slots=True)
class LengthArea:
    """One task and candidate.

    Attributes:
        baseline, own: area under the curve by the trapezoid rule, as a share of the widest possible: in [0, 1].
        delta: candidate minus baseline.
        low, high: its interval. None where the loss at one of the lengths has none.
    """

    variant: str
    task: str
    context_lengths: tuple[int, ...]
    baseline: float
    own: float
    delta: float
    low: float | None
    high: float | None


def length_areas(run: RunData, *, confidence: float) -> list[LengthArea]:
    """Returns the area of every task that was asked at two lengths or more, for every candidate.

    Lengths have haystacks of their own, so their errors are independent. The interval joins the paired interval at
    each length, as Zou and Donner do ("Construction of confidence limits about effect measures", Statistics in
    Medicine 2008), so that it keeps a width where nothing differed.
    """
    found = []
    for variant in run.baseline_first:
        if variant.role != "candidate" or variant.name == run.manifest.baseline:
            continue
        table = answered_by(pair_variant(run, variant), "baseline", "candidate")
        for task, rows in table[table["scored"]].groupby("task", sort=True):
            lengths = tuple(sorted(int(one) for one in rows["context_length"].unique()))
            if len(lengths) < _FEWEST_LENGTHS:
                continue
            weights = np.array(log_weights(lengths))
            cells = [rows[rows["context_length"] == length] for length in lengths]
            ours = np.array([cell["baseline_score"].mean() for cell in cells])
            theirs = np.array([cell["candidate_score"].mean() for cell in cells])
            differences = [
                paired_difference(
                    cell["baseline_score"], cell["candidate_score"], cell["haystack_id"], confidence=confidence
                )
                for cell in cells
            ]
            delta = float(weights @ (theirs - ours))
            below = [(one.delta - one.low) for one in differences if one.delta is not None and one.low is not None]
            above = [(one.high - one.delta) for one in differences if one.delta is not None and one.high is not None]
            has_interval = len(below) == len(above) == len(cells)
            found.append(
                LengthArea(
                    variant.name,
                    str(task),
                    lengths,
                    float(weights @ ours),
                    float(weights @ theirs),
                    delta,
                    max(-1.0, delta - math.hypot(*(weights * below))) if has_interval else None,
                    min(1.0, delta + math.hypot(*(weights * above))) if has_interval else None,
                )
            )
    return found


def log_weights(lengths: Sequence[int]) -> list[float]:
    """Returns what each of the ascending `lengths` weighs in the trapezoid rule over log length. They sum to 1."""
    places = np.log2(lengths)
    widths = np.diff(places) / (places[-1] - places[0])
    return [float(one) for one in (np.append(widths, 0) + np.append(0, widths)) / 2]
