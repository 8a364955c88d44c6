"""How alike the questions of one haystack are: seen in earlier runs of the same model, with a careful default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kveval.errors import KvevalError
from kveval.judge.comparison.pairing import pairs_with_baseline
from kveval.judge.prediction.variance import runs_of
from kveval.judge.run_data import load_run
from kveval.judge.statistics.clusters import intra_cluster_correlation

# So many contexts count as much as the default. An estimate from few says little.
_DEFAULT_COUNTS_AS_CONTEXTS = 30


def earlier_correlation(
    folder: Path, model_sha256: str | None, *, without: Path, careful: float
) -> tuple[float, str] | None:
    """Returns the correlation of differences within a haystack, and where it comes from. None if no run shows any.

    That of each candidate of the newest runs of the same model is weighed by its contexts, together with a careful
    default. A run that cannot be read is left out.

    Args:
        model_sha256: of the model's config.json.
        without: the run that is planned.
        careful: the default.
    """
    if model_sha256 is None:
        return None
    seen: list[tuple[float, int]] = []
    runs = 0
    for path in runs_of(folder, model_sha256, without):
        with contextlib.suppress(KvevalError):
            found = list(_correlations(path))
            seen += found
            runs += bool(found)
    if not seen:
        return None
    contexts = sum(count for _, count in seen)
    total = sum(max(0.0, value) * count for value, count in seen)
    weighed = (total + careful * _DEFAULT_COUNTS_AS_CONTEXTS) / (contexts + _DEFAULT_COUNTS_AS_CONTEXTS)
    return weighed, (
        f"{total / contexts:.3g} in {contexts:,} contexts of {runs} earlier runs, weighed with a careful default of "
        f"{careful:g}"
    )


def _correlations(path: Path) -> Iterator[tuple[float, int]]:
    """Yields the correlation in each candidate that moved at all, and the number of contexts that show it."""
    for pair in pairs_with_baseline(load_run(path)):
        table = pair.table[pair.table["baseline_answered"] & pair.table["candidate_answered"]]
        if not pair.judged or table.empty:
            continue
        expected = table["candidate_expected"] - table["baseline_expected"]
        values = expected.fillna(table["candidate_score"] - table["baseline_score"]).to_numpy(dtype=np.float64)
        cells, clusters = _codes(table["task"], table["context_length"]), _codes(table["haystack_id"])
        found = intra_cluster_correlation(values, clusters, cells)
        if found is not None:
            yield found, int(clusters.max()) + 1


def _codes(*columns: object) -> NDArray[np.intp]:
    names = np.array(["/".join(map(str, row)) for row in zip(*columns, strict=True)])
    return np.unique(names, return_inverse=True)[1].astype(np.intp)
