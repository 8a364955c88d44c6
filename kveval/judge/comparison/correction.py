"""Corrects p-values for the rows that are read together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from kveval.config.judge import Policy
from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.endpoint import Kind
from kveval.judge.comparison.pairing import VariantPair
from kveval.judge.comparison.scope import SUMMARY_LEVELS, Level, Scope, in_scope, scopes
from kveval.judge.looks.basis import Basis
from kveval.judge.statistics.difference import Difference
from kveval.judge.statistics.hypothesis_tests import holm

# Holm corrects over the rows of one panel, which are read together. A fail needs a one-sided p-value below
# (1 - confidence) / 2. So one panel has false fails with that probability at most, and both panels that can block with
# 1 - confidence. What only reports has a panel of its own, and takes no certainty from what blocks.
_PANELS: tuple[tuple[tuple[Level, ...], bool], ...] = (
    (SUMMARY_LEVELS, False),
    (("family", "cell"), False),
    (("family", "cell"), True),
)

_Cells = frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Row:
    """Holds a row that has no verdict yet, and what it rests on."""

    pair: VariantPair
    basis: Basis
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class PValues:
    """Holds the p-values of one row after Holm, by kind of score. Both are empty for a row that gets no verdict.

    Attributes:
        no_difference: two-sided, of "the true difference is 0".
        within_margin: one-sided, of "the true loss is at most the margin".
    """

    no_difference: Mapping[Kind, float]
    within_margin: Mapping[Kind, float]


def corrected(rows: Sequence[Row], policy: Policy) -> list[PValues]:
    """Returns the corrected p-values of every row, in the order of `rows`."""
    no_difference = _holm(rows, policy, lambda difference: difference.p)
    within_margin = _holm(rows, policy, lambda difference: difference.p_beyond)
    return [PValues(*both) for both in zip(no_difference, within_margin, strict=True)]


def _holm(rows: Sequence[Row], policy: Policy, p_of: Callable[[Difference], float | None]) -> list[dict[Kind, float]]:
    found: list[dict[Kind, float]] = [{} for _ in rows]
    cells = {key: _cells_by_scope(pair.table) for key, pair in {id(row.pair): row.pair for row in rows}.items()}
    for levels, is_advisory in _PANELS:
        # Scopes with the same cells are one hypothesis and count once. With one length only, "overall" is that length.
        p_values: dict[tuple[int, _Cells, Kind], float] = {}
        of_rows: list[tuple[int, Kind, tuple[int, _Cells, Kind]]] = []
        for index, row in enumerate(rows):
            scope = row.comparison.scope
            if not row.pair.judged or scope.level not in levels or row.comparison.is_advisory != is_advisory:
                continue
            for one in row.comparison.evidence(policy):
                p = _counted(row, p_of(one.difference))
                if p is not None:
                    hypothesis = (id(row.pair), cells[id(row.pair)][scope], one.kind)
                    p_values[hypothesis] = p
                    of_rows.append((index, one.kind, hypothesis))
        adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
        for index, kind, hypothesis in of_rows:
            found[index][kind] = adjusted[hypothesis]
    return found


def _counted(row: Row, p: float | None) -> float | None:
    """Returns the p-value of a row as Holm counts it. None if it does not count.

    Where looks are taken, a row that is still to be measured counts as one that shows nothing: what fails at a look
    then also fails when all rows are known.
    """
    if row.pair.looks is not None and p is None:
        return 1.0
    return None if p is None else row.basis.corrected(p)


def _cells_by_scope(samples: pd.DataFrame) -> dict[Scope, _Cells]:
    return {
        scope: frozenset(zip(rows["task"], rows["context_length"], strict=True))
        for scope in scopes(samples)
        for rows in [in_scope(samples, scope)]
    }
