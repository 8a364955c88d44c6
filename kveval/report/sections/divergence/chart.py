"""Draws the divergence by position in the text: whether it accumulates is seen at a glance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kveval.judge.divergence.of_run import VariantDivergence
from kveval.judge.divergence.position import PositionRange
from kveval.report.html.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, Line, Point

_STEPS = 4
_TOPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)


def position_chart(title: str, rows: Sequence[VariantDivergence], styles: Mapping[str, int]) -> Chart | None:
    """Returns a line per variant: the mean KLD of each range of positions and its error. None with fewer than two.

    The axis begins at 0, where an A/A run without noise lies. Ranges whose mean is not finite have no point.
    """
    ends = sorted({one.last for row in rows for one in row.by_position})
    highest = [
        one.kld_mean.value + (one.kld_mean.se or 0.0)
        for row in rows
        for one in row.by_position
        if one.kld_mean.value is not None
    ]
    if len(ends) < 2 or not highest:
        return None
    top = _round_up(max(highest))

    def x(last: int) -> float:
        first, end = math.log2(ends[0]), math.log2(ends[-1])
        return LEFT + 30 + (math.log2(last) - first) / (end - first) * (WIDTH - LEFT - RIGHT - 60)

    def y(nats: float) -> float:
        return TOP + (1 - max(nats, 0.0) / top) * (HEIGHT - TOP - BOTTOM)

    lines = []
    for row in rows:
        points = tuple(
            Point(
                x(one.last),
                y(one.kld_mean.value),
                None if one.kld_mean.se is None else y(one.kld_mean.value - one.kld_mean.se),
                None if one.kld_mean.se is None else y(one.kld_mean.value + one.kld_mean.se),
                _label(row.variant, one),
            )
            for one in row.by_position
            if one.kld_mean.value is not None
        )
        lines.append(Line(row.variant, styles[row.variant], points))
    return Chart(
        title,
        tuple(lines),
        tuple((x(last), f"{last:,}") for last in ends),
        tuple((y(top * step / _STEPS), f"{top * step / _STEPS:.2g}") for step in range(_STEPS + 1)),
    )


def _round_up(value: float) -> float:
    """Returns the next number that four steps divide into numbers of two digits."""
    if value <= 0:
        return 1e-3
    power = float(10.0 ** math.floor(math.log10(value)))
    return next(power * factor for factor in _TOPS if value <= power * factor)


def _label(variant: str, one: PositionRange) -> str:
    error = "" if one.kld_mean.se is None else f" ± {one.kld_mean.se:.2g}"
    where = f"tokens {one.first:,} to {one.last:,}"
    return f"{variant}, {where}: {one.kld_mean.value:.3g}{error} nats, {one.tokens:,} tokens in {one.clusters} contexts"
