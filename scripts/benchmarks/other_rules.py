"""Rules that decide without kveval: a fixed tolerance, an unpaired test, and the gate of NVIDIA NeMo Evaluator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

FIXED_TOLERANCE = 0.08
_FEWEST_ITEMS = 10
Scores = NDArray[np.float64]
Word = Literal["pass", "fail", "undecided"]


def fixed_tolerance(baseline: Scores, candidate: Scores) -> bool:
    """A score more than 0.08 below the expected one fails, whatever the number of samples."""
    return bool(candidate.mean() < baseline.mean() - FIXED_TOLERANCE)


def unpaired_z(baseline: Scores, candidate: Scores) -> bool:
    """Two scores with a standard error each, compared as if they came from different samples."""
    se = math.sqrt(sum(float(scores.var(ddof=1)) / len(scores) for scores in (baseline, candidate)))
    delta = float(candidate.mean() - baseline.mean())
    return delta < 0 and (se == 0 or delta / se < special.ndtri(0.025))


def nemo_gate(benchmarks: Sequence[tuple[Scores, Scores, NDArray[np.intp] | None]], max_drop: float) -> Word:
    """Decides as `nel gate` of NeMo Evaluator does (``engine/gate.py``, commit ac66aff), every benchmark gated alike.

    A benchmark breaches if the whole 95% interval of its paired differences lies below ``-max_drop``, and passes if all
    of it lies above. One breach fails the gate; otherwise one benchmark without enough evidence leaves it open. No
    correction for the number of benchmarks is made.

    Args:
        benchmarks: scores of baseline and candidate, and the categories that cluster them; None without categories.
    """
    words = [_nemo_benchmark(candidate - baseline, codes, max_drop) for baseline, candidate, codes in benchmarks]
    return "fail" if "fail" in words else "undecided" if "undecided" in words else "pass"


def _nemo_benchmark(differences: Scores, codes: NDArray[np.intp] | None, max_drop: float) -> Word:
    n, mean = len(differences), float(differences.mean())
    if n < _FEWEST_ITEMS:
        return "undecided"
    if codes is None or codes.max() == 0:
        se, reach = float(differences.std(ddof=1)) / math.sqrt(n), float(special.stdtrit(n - 1, 0.975))
    else:
        clusters = int(codes.max()) + 1
        sums = np.bincount(codes, differences - mean, clusters)
        se = math.sqrt(clusters / (clusters - 1) * float(sums @ sums)) / n
        reach = float(special.ndtri(0.975))
    low, high = mean - reach * se, mean + reach * se
    return "fail" if -high > max_drop else "pass" if -low <= max_drop else "undecided"
