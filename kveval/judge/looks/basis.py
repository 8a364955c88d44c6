"""What a row rests on where a candidate was judged while it was asked.

A row rests on its last look: the last one that covers all of its context lengths, with the haystacks up to that look.
It is tested at the share of the error rate that the look may use. The shares add up to less than 1, so whichever look
was the last, for whatever reason, errors are no more frequent than in one test at the whole rate: the chance that any
look would make one is at most the sum over the looks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from kveval.judge.comparison.comparison import Comparison, at_levels
from kveval.judge.comparison.pairing import VariantPair
from kveval.judge.comparison.scope import Level, Scope, in_scope
from kveval.judge.comparison.verdict import Verdict
from kveval.run.looks import last_look


@dataclass(frozen=True, slots=True)
class Basis:
    """What the verdict of one row rests on.

    Attributes:
        table: of the row's samples, those that count.
        error_share: the share of the error rate that the row is tested at.
        obstacle: what rules out a pass whatever the numbers say.
    """

    table: pd.DataFrame
    error_share: float
    obstacle: str | None

    def confidence(self, of_policy: float) -> float:
        """Returns the confidence of the row's intervals and verdict."""
        return of_policy if self.error_share == 1 else 1 - (1 - of_policy) * self.error_share

    def corrected(self, p: float) -> float:
        """Returns a p-value that holds however many looks there were, to compare with the policy's error rate."""
        return min(1.0, p / self.error_share)


def basis(pair: VariantPair, scope: Scope) -> Basis:
    """Returns what the row of `pair` over `scope` rests on."""
    rows = in_scope(pair.table, scope)
    if pair.looks is None:
        return Basis(rows, 1.0, pair.obstacle)
    look = last_look(pair.looks.taken, rows["context_length"])
    if look is None:
        # Only an unfinished variant lacks a look. What it has so far is tested as if it were the first look.
        return Basis(rows, pair.looks.first_error_share, pair.obstacle)
    return Basis(rows[rows["first_look"] <= look.number], look.error_share, pair.looks.obstacle)


_PARTS: dict[Level, Level] = {"overall": "length", "family": "cell"}


def with_implied_passes(rows: Iterable[Comparison]) -> list[Comparison]:
    """Returns the rows of one variant; what is undecided passes if all of its parts pass.

    Lengths stop at different looks, and the overall row rests on the last look that covers them all. If every length
    excludes a loss of its margin, their mean does so too, at the same error rate: a false pass overall needs a false
    pass at a length that really loses its margin.
    """
    rows = list(rows)
    return [_implied(row, at_levels(rows, part)) if (part := _PARTS.get(row.scope.level)) else row for row in rows]


def _implied(row: Comparison, others: Iterable[Comparison]) -> Comparison:
    verdict = row.verdict
    parts = [one.verdict for one in others if row.scope.family in (None, one.scope.family)]
    if verdict is None or verdict.word != "undecided" or verdict.is_doubted or not parts:
        return row
    if not all(part is not None and part.word == "pass" for part in parts):
        return row
    what = "every context length" if row.scope.level == "overall" else "each of its cells"
    reason = f"{what} passes"
    return replace(row, verdict=Verdict("pass", "loss_excluded", reason, verdict.margin, verdict.p_holm))
