"""Computes charts and heatmaps. The templates draw them as static SVG and tables, which print and need no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kveval.judge.statistics.clusters import Score
from kveval.report.labels import length_label

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 12, 34
_DODGE = 7


@dataclass(frozen=True, slots=True)
class Point:
    """A score and its interval, in pixels from the top left corner. `low_y` and `high_y` may be None."""

    x: float
    y: float
    low_y: float | None
    high_y: float | None
    label: str


@dataclass(frozen=True, slots=True)
class Line:
    """The scores of one variant. `style` is the number of its colour and marker. `has_band` shades its intervals."""

    variant: str
    style: int
    points: tuple[Point, ...]
    has_band: bool = False

    @property
    def band(self) -> str:
        """Returns the outline of all intervals. '' without a band, or where a point has no interval."""
        lows = [(p.x, p.low_y) for p in self.points if p.low_y is not None]
        highs = [(p.x, p.high_y) for p in self.points if p.high_y is not None]
        if not self.has_band or len(lows) < len(self.points) or len(lows) < 2:
            return ""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in [*highs, *reversed(lows)])

    @property
    def path(self) -> str:
        return " ".join(f"{'L' if index else 'M'}{p.x:.1f},{p.y:.1f}" for index, p in enumerate(self.points))


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. Its ticks are (pixel, label)."""

    title: str
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    bottom: int = HEIGHT - BOTTOM
    right: int = WIDTH - RIGHT


def score_chart(
    title: str,
    series: Mapping[str, Sequence[tuple[int, Score]]],
    styles: Mapping[str, int],
    *,
    has_bands: bool = False,
) -> Chart:
    """Returns a line per variant over context lengths, on a logarithmic axis, with an interval at every point.

    Args:
        series: (context_length, score) of each variant. Scores without a mean are left out.
        styles: the number of each variant's colour and marker, the same in every chart of a page.
        has_bands: shade the intervals of each line.
    """
    lengths = sorted({length for scores in series.values() for length, _ in scores})
    places = _Places(lengths, [math.log2(length) for length in lengths], [length_label(length) for length in lengths])
    labels = {length: f"at {length:,} tokens" for length in lengths}
    return _chart(title, series, styles, places, labels, has_bands=has_bands)


def night_chart(title: str, names: Sequence[str], series: Mapping[str, Sequence[tuple[int, Score]]]) -> Chart:
    """Returns a line per variant over nights, evenly spaced: (index into `names`, score) of each variant."""
    indices = list(range(len(names)))
    # At most six names fit.
    every = -(-len(names) // 6)
    shown = [name if index % every == 0 else "" for index, name in enumerate(names)]
    places = _Places(indices, [float(index) for index in indices], [_short(name) for name in shown])
    styles = {name: style for style, name in enumerate(series)}
    return _chart(title, series, styles, places, {index: f"in {names[index]}" for index in indices})


@dataclass(frozen=True, slots=True)
class _Places:
    """The horizontal axis: keys in order, their positions in any unit, and their labels."""

    keys: Sequence[int]
    positions: Sequence[float]
    labels: Sequence[str]

    def x(self, key: int) -> float:
        if len(self.keys) < 2:
            return (LEFT + WIDTH - RIGHT) / 2
        position = self.positions[self.keys.index(key)]
        span = self.positions[-1] - self.positions[0]
        return LEFT + 30 + (position - self.positions[0]) / span * (WIDTH - LEFT - RIGHT - 60)


def _chart(
    title: str,
    series: Mapping[str, Sequence[tuple[int, Score]]],
    styles: Mapping[str, int],
    places: _Places,
    labels: Mapping[int, str],
    *,
    has_bands: bool = False,
) -> Chart:
    ends = [
        end
        for scores in series.values()
        for _, score in scores
        for end in (score.mean, score.low, score.high)
        if end is not None
    ]
    bottom = min(0.8, math.floor(5 * min(ends, default=0.0)) / 5)

    def y(score: float) -> float:
        return TOP + (1 - (score - bottom) / (1 - bottom)) * (HEIGHT - TOP - BOTTOM)

    lines = []
    for order, (variant, scores) in enumerate(series.items()):
        # Side by side, so that equal scores do not hide each other's intervals.
        dodge = (order - (len(series) - 1) / 2) * _DODGE
        points = tuple(
            Point(
                places.x(key) + dodge,
                y(score.mean),
                None if score.low is None else y(score.low),
                None if score.high is None else y(score.high),
                _label(variant, labels[key], score),
            )
            for key, score in sorted(scores, key=lambda pair: pair[0])
            if score.mean is not None
        )
        lines.append(Line(variant, styles[variant], points, has_bands))
    steps = [bottom + (1 - bottom) * step / 4 for step in range(5)]
    return Chart(
        title,
        tuple(lines),
        tuple((places.x(key), label) for key, label in zip(places.keys, places.labels, strict=True)),
        tuple((y(step), f"{step:.2f}") for step in steps),
    )


def _label(variant: str, place: str, score: Score) -> str:
    interval = "" if score.low is None else f" [{score.low:.3f}, {score.high:.3f}]"
    return f"{variant} {place}: {score.mean:.3f}{interval}, {score.n} questions about {score.clusters} contexts"


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:6]}…{name[-7:]}"


# A difference of at least so many points gets the next colour.
_STEPS_POINTS = (0.5, 3, 8, 15, 30)


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell: a score in [0, 1] or a difference of scores, and the name of its colour in the style sheet."""

    value: float
    n: int
    colour: str


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A table whose cells are coloured. A cell is None if nothing was asked there."""

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
