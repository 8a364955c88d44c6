"""Tests that need no interval: flips with McNemar's test, and Holm's correction of p-values read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest


@dataclass(frozen=True, slots=True)
class Flips:
    """Counts samples whose correctness differs.

    Attributes:
        lost: correct on the first side only.
        gained: correct on the second side only.
        p: exact two-sided p-value of McNemar's test, which takes samples as independent.
    """

    lost: int
    gained: int
    p: float


def flips(baseline_correct: ArrayLike, candidate_correct: ArrayLike) -> Flips:
    """Counts samples [n] whose correctness differs, with McNemar's exact test (Psychometrika 1947).

    Flips count both ways, because equal scores can hide many of them (Dutta et al., "Accuracy is Not All You
    Need", arXiv 2407.09141).
    """
    first, second = np.asarray(baseline_correct, dtype=bool), np.asarray(candidate_correct, dtype=bool)
    lost, gained = int((first & ~second).sum()), int((~first & second).sum())
    p = float(binomtest(lost, lost + gained).pvalue) if lost + gained else 1.0
    return Flips(lost, gained, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrects p-values that are read together, and keeps their order (Holm, Scandinavian J. Statistics 1979)."""
    # The version of statsmodels collects garbage at every call, which takes 0.2 s.
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in adjusted]
