"""Tests whether answers change with the order of asking, and says where.

A server that breaks in the middle of a run changes what it answers from one question on. A cache format does not: it
does the same at every hour. The two are told apart by order alone, so lengths and tasks must not pass for time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.001
"""The largest probability with which a variant whose server did not change is said to have changed."""

# A segment must hold so many questions, and this share of all.
_FEWEST_QUESTIONS = 5
_LEAST_SHARE = 1 / 40
# Boundaries are tried at so many moments, evenly spaced. The chosen one is then moved to the best question.
_MOMENTS = 60
# Few permutations settle that nothing changed. Only a suspicion is worth many.
_FIRST_PERMUTATIONS, _ALL_PERMUTATIONS = 199, 1999
_SUSPICIOUS = 0.03
_VALUES_AT_ONCE = 4_000_000
_ENOUGH_EXPLAINED = 0.8

Values = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class TimeChange:
    """Says that the questions `start` to `stop` (not included), in the order of asking, were answered differently.

    Attributes:
        series: the name of the series that shows it most clearly.
        p: corrected for all series and all segments that were tried.
    """

    series: str
    start: int
    stop: int
    p: float


def find_change(
    series: Mapping[str, Values], cells: Codes, blocks: Codes, *, least: Mapping[str, float], seed: list[int]
) -> TimeChange | None:
    """Returns the segment of questions that differs most from the others, if chance does not explain it at `LEVEL`.

    Each value is first taken relative to the mean of its cell, so a hard task or length that is asked late is no change
    in time. The statistic is the largest standardized sum over any segment of the order. So it finds a server that
    breaks, and one that recovers (the epidemic alternative: Levin and Kline, "The Cusum Test of Homogeneity",
    Statistics in Medicine 1985; all segments: Olshen et al., "Circular Binary Segmentation", Biostatistics 2004).

    The p-value comes from permutations, as Antoch and Huskova propose ("Permutation Tests in Change Point Analysis",
    Statistics and Probability Letters 2001). Whole blocks are permuted within their cell: the questions of one haystack
    are not independent and stay together. The maximum over all series and segments is compared with the same maximum of
    each permutation, which corrects for their number (Westfall and Young, "Resampling-Based Multiple Testing", 1993).
    So the level holds for every number of haystacks; with few of them, no change can be shown.

    Args:
        series: by name, one value per question in the order of asking, NaN where a question has none.
        cells: the cell of each question. blocks: its haystack. A haystack belongs to one cell.
        least: by name, the smallest change of the mean that counts.
        seed: seeds the permutations, so that a run is judged the same way every time.
    """
    test = _Test.of(series, cells, blocks, least)
    if test is None:
        return None
    rng = np.random.default_rng(seed)
    for permutations, level in ((_FIRST_PERMUTATIONS, _SUSPICIOUS), (_ALL_PERMUTATIONS, LEVEL)):
        p, name, segment = test.largest(rng, permutations)
        if p > level:
            return None
    start, stop = _sharpened(series[name], cells, *test.questions_of(segment), around=test.questions_per_moment)
    return TimeChange(name, start, stop, p)


@dataclass(frozen=True, slots=True)
class _Test:
    """The blocks in the order of asking, summed up for the permutations.

    Attributes:
        sums: by series, the sum of each block's values, relative to their cells.
        weights: by series and segment, what a change of 1 in the segment adds to its sum.
        places: by cell, the positions of its blocks. first_blocks: the first block of each moment.
        first_questions: the first question of each moment, and the number of questions.
    """

    sums: Mapping[str, Values]
    weights: Mapping[str, Values]
    least: Mapping[str, float]
    places: list[Codes]
    first_blocks: Codes
    first_questions: Codes

    @classmethod
    def of(cls, series: Mapping[str, Values], cells: Codes, blocks: Codes, least: Mapping[str, float]) -> _Test | None:
        """Returns None if nothing varies, or if there are too few blocks to tell moments apart."""
        count = len(cells)
        names, block_of = np.unique(blocks, return_inverse=True)
        middles = np.bincount(block_of, np.arange(count)) / np.bincount(block_of)
        rank = np.argsort(np.argsort(middles, kind="stable"), kind="stable")
        position = rank[block_of]
        cell_of_block = np.zeros(len(names), dtype=np.intp)
        cell_of_block[position] = cells
        moments = min(_MOMENTS, len(names))
        if moments < 2:
            return None
        first_blocks = (np.arange(moments) * len(names) // moments).astype(np.intp)
        sizes = np.bincount(position, minlength=len(names))
        first_questions = np.append(np.concatenate(([0], np.cumsum(sizes)))[first_blocks], count).astype(np.intp)
        moment_of = np.searchsorted(first_blocks, position, side="right") - 1
        sums, weights = {}, {}
        for name, values in series.items():
            residuals, known = _relative_to_cell(values, cells), ~np.isnan(values)
            if np.abs(residuals).max(initial=0.0) < 1e-9:
                continue
            sums[name] = np.bincount(position, residuals, len(names)).astype(np.float64)
            weights[name] = _weights(cells[known], moment_of[known], moments)
        if not sums:
            return None
        places = [np.flatnonzero(cell_of_block == cell) for cell in np.unique(cells)]
        return cls(sums, weights, least, places, first_blocks, first_questions)

    @property
    def questions_per_moment(self) -> int:
        return int(np.diff(self.first_questions).max())

    def questions_of(self, segment: tuple[int, int]) -> tuple[int, int]:
        return int(self.first_questions[segment[0]]), int(self.first_questions[segment[1]])

    def largest(self, rng: np.random.Generator, permutations: int) -> tuple[float, str, tuple[int, int]]:
        """Returns the p-value of the largest statistic, its series, and its segment as (first moment, end)."""
        starts, stops = np.triu_indices(len(self.first_blocks))
        orders = list(self._orders(rng, permutations))
        best: list[Values] = []
        at: list[tuple[float, str, int]] = []
        for name, sums in self.sums.items():
            moments = np.concatenate([np.add.reduceat(sums[order], self.first_blocks, axis=1) for order in orders])
            totals = np.concatenate((np.zeros((len(moments), 1)), np.cumsum(moments, axis=1)), axis=1)
            segments = totals[:, stops + 1] - totals[:, starts]
            weight, size = self.weights[name], np.abs(segments)
            error = np.sqrt(np.mean(np.square(segments), axis=0))
            counts = (weight >= max(_FEWEST_QUESTIONS, _LEAST_SHARE * self.first_questions[-1])) & (error > 1e-9)
            allowed = counts & (size >= self.least[name] * weight)
            statistics = np.where(allowed, size / np.where(error > 0, error, 1.0), 0.0)
            best.append(statistics.max(axis=1))
            winner = int(statistics[0].argmax())
            at.append((float(statistics[0, winner]), name, winner))
        maxima = np.maximum.reduce(best)
        value, name, winner = max(at, key=lambda found: found[0])
        p = float((maxima >= value - 1e-9).mean()) if value > 0 else 1.0
        return p, name, (int(starts[winner]), int(stops[winner]) + 1)

    def _orders(self, rng: np.random.Generator, permutations: int) -> Iterator[Codes]:
        """Yields the order that was asked, then permutations within cells, as many at once as fit into memory."""
        blocks = len(next(iter(self.sums.values())))
        yield np.arange(blocks, dtype=np.intp)[None, :]
        at_once = max(1, _VALUES_AT_ONCE // blocks)
        for begin in range(0, permutations, at_once):
            rows = min(at_once, permutations - begin)
            order = np.empty((rows, blocks), dtype=np.intp)
            for places in self.places:
                order[:, places] = rng.permuted(np.tile(places, (rows, 1)), axis=1)
            yield order


def _relative_to_cell(values: Values, cells: Codes) -> Values:
    """Returns each value minus the mean of its cell, and 0 where there is none."""
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    counts = np.bincount(cells, known)
    means = np.bincount(cells, filled) / np.maximum(counts, 1)
    relative: Values = np.where(known, filled - means[cells], 0.0)
    return relative


def _weights(cells: Codes, moments: Codes, count: int) -> Values:
    """Returns for each segment of moments the sum over cells of n * (1 - n / N): n of the N questions are in it."""
    _, codes = np.unique(cells, return_inverse=True)
    asked = np.zeros((int(codes.max()) + 1, count + 1))
    np.add.at(asked, (codes, moments + 1), 1.0)
    asked = np.cumsum(asked, axis=1)
    starts, stops = np.triu_indices(count)
    weights = np.zeros(len(starts))
    for of_cell in asked:
        inside = of_cell[stops + 1] - of_cell[starts]
        weights += inside * (1 - inside / of_cell[-1])
    return weights


def _sharpened(values: Values, cells: Codes, start: int, stop: int, *, around: int) -> tuple[int, int]:
    """Moves both ends of a segment to the questions that explain the values best (least squares, given the cells)."""
    count = len(values)
    residuals, known = _relative_to_cell(values, cells), ~np.isnan(values)
    _, codes = np.unique(cells, return_inverse=True)
    sums = np.concatenate(([0.0], np.cumsum(residuals)))
    totals = np.bincount(codes, known)

    def explained(begin: int, end: int) -> float:
        inside = np.bincount(codes[begin:end], known[begin:end], len(totals))
        weight = float((inside * (1 - inside / np.maximum(totals, 1))).sum())
        return float((sums[end] - sums[begin]) ** 2 / weight) if weight > 0 else 0.0

    def near(place: int, low: int, high: int) -> range:
        return range(max(low, place - 2 * around), min(high, place + 2 * around) + 1)

    def sharpen(begin: int, end: int) -> tuple[int, int]:
        for _ in range(2):
            if begin > 0:
                begin = max(near(begin, 1, end - 1), key=lambda place: explained(place, end))
            if end < count:
                end = max(near(end, begin + 1, count - 1), key=lambda place: explained(begin, place))
        return begin, end

    both = sharpen(start, stop)
    # A second moment must explain clearly more than one: where a whole cell is lost, its values say nothing about time.
    single = max((sharpen(start, count), sharpen(0, stop)), key=lambda ends: explained(*ends))
    return single if explained(*single) >= _ENOUGH_EXPLAINED * explained(*both) else both
