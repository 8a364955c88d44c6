"""How right answers are along what the model writes: by step of a chain, and by length of the output.

Each row compares a variant with the baseline over the same questions. Rows are evidence and decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kveval.judge.comparison.pairing import answered_by, pair_variant
from kveval.judge.comparison.scope import Scope, in_scope, scopes
from kveval.judge.run_data import RunData
from kveval.judge.statistics.clusters import Score, mean_score
from kveval.judge.statistics.difference import Difference, paired_difference

_MOST_STEP_BINS = 8
_SHORTEST_TOKENS = 32


@dataclass(frozen=True, slots=True)
class OutputBin:
    """A variant and the baseline over one part of their outputs.

    Attributes:
        first, last: steps, or output tokens of the baseline's answer.
        baseline_tokens: median output tokens of the baseline at the end of these steps. None if it wrote none.
        baseline, own: means over the questions that both answered. Of the baseline itself, both are its own.
        difference: candidate minus baseline, paired. None for the baseline itself.
    """

    variant: str
    scope: Scope
    first: int
    last: int
    baseline_tokens: float | None
    baseline: Score
    own: Score
    difference: Difference | None


def step_curves(run: RunData, *, confidence: float) -> list[OutputBin]:
    """Returns the share of right steps by step number, for every cell whose answers are chains of steps."""
    found = []
    for scope, variant, table in _cells(run):
        ids = table.index
        ours, theirs = run.records[run.manifest.baseline]["steps"], run.records[variant]["steps"]
        pairs = [(ours[one] or [], theirs[one] or []) for one in ids]
        chains = [k for k, (first, second) in enumerate(pairs) if first and len(first) == len(second)]
        if not chains:
            continue
        count = max(len(pairs[k][0]) for k in chains)
        ends = run.records[run.manifest.baseline]["step_tokens"]
        edges = np.linspace(0, count, min(count, _MOST_STEP_BINS) + 1).astype(int)
        for first, past in pairwise(edges.tolist()):
            own = [k for k in chains if len(pairs[k][0]) > first]
            means = np.array([[np.mean(side[first:past]) for side in pairs[k]] for k in own], dtype=np.float64)
            tokens = [at for k in own for at in ends[ids[k]][first:past][-1:] if at is not None]
            found.append(_bin(run, variant, scope, first + 1, past, tokens, means, table.iloc[own], confidence))
    return found


def by_output_length(run: RunData, *, confidence: float) -> list[OutputBin]:
    """Returns the score by the length of the baseline's answer, in bins that double, for every cell.

    The baseline's length sorts both answers, so that a variant which writes more does not change what is compared.
    """
    found = []
    for scope, variant, table in _cells(run):
        scored = table[table["scored"]]
        lengths = run.records[run.manifest.baseline]["output_tokens"].loc[scored.index].to_numpy(dtype=np.int64)
        for first, last in _doubling(lengths):
            inside = (lengths >= first) & (lengths <= last)
            if inside.any():
                rows = scored[inside]
                means = rows[["baseline_score", "candidate_score"]].to_numpy(dtype=np.float64)
                tokens = lengths[inside].tolist()
                found.append(_bin(run, variant, scope, first, last, tokens, means, rows, confidence))
    return found


def _doubling(lengths: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    first, last = 0, _SHORTEST_TOKENS
    while len(lengths) and first <= lengths.max():
        yield first, last
        first, last = last + 1, 2 * last


def _cells(run: RunData) -> Iterator[tuple[Scope, str, pd.DataFrame]]:
    """Yields each cell with each variant, the baseline first, and the questions that both answered."""
    tables = {one.name: answered_by(pair_variant(run, one), "baseline", "candidate") for one in run.baseline_first}
    for scope in scopes(run.samples, "cell"):
        for variant, table in tables.items():
            rows = in_scope(table, scope)
            if len(rows):
                yield scope, variant, rows


def _bin(
    run: RunData,
    variant: str,
    scope: Scope,
    first: int,
    last: int,
    tokens: Sequence[float],
    means: NDArray[np.float64],
    rows: pd.DataFrame,
    confidence: float,
) -> OutputBin:
    clusters = rows["haystack_id"]
    is_baseline = variant == run.manifest.baseline
    return OutputBin(
        variant,
        scope,
        first,
        last,
        float(np.median(tokens)) if tokens else None,
        mean_score(means[:, 0], clusters, confidence=confidence),
        mean_score(means[:, 1], clusters, confidence=confidence),
        None if is_baseline else paired_difference(means[:, 0], means[:, 1], clusters, confidence=confidence),
    )
