"""Scores as a table whose cells are coloured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# A difference of at least so many points gets the next colour.
_STEPS_POINTS = (0.5, 3, 8, 15, 30)


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell.

    Attributes:
        value: a score in [0, 1], or a difference of scores.
        colour: the name of its class in the style sheet.
    """

    value: float
    n: int
    colour: str


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A table whose cells are coloured. A cell is None if nothing was asked there.

    Attributes:
        is_difference: whether the values are differences from the baseline.
    """

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell | None, ...]], ...]
    is_difference: bool


def heat_cell(values: Sequence[float], *, is_difference: bool) -> HeatCell | None:
    """Returns the mean of `values` with its colour. None without values."""
    if not values:
        return None
    mean = float(np.mean(values))
    if not is_difference:
        return HeatCell(mean, len(values), f"h{min(9, int(10 * mean))}")
    step = sum(100 * abs(mean) >= least for least in _STEPS_POINTS)
    return HeatCell(mean, len(values), "d0" if step == 0 else f"{'loss' if mean < 0 else 'gain'}{step}")
