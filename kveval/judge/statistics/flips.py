"""Counts the samples that only one of two variants got right."""

from __future__ import annotations

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
