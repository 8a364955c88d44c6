"""Simulated nights: what the judge decides where the truth is known, and what two simpler rules decide beside it.

Scores are 0 or 1 from a latent normal variable. A part of it is the haystack's (the intra-cluster correlation), and a
part of either is drawn anew on each side: the noise of two runs of one engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from kveval.config.judge import Policy
from kveval.judge.comparison.verdict import decide
from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.judge.statistics.hypothesis_tests import holm
from kveval.judge.statistics.power import POWER, more_samples

POLICY = Policy()
FIXED_TOLERANCE = 0.08
_LENGTHS, _FAMILIES = 4, 2
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A night: `cells` of `haystacks` x `questions` each, baseline scores spread evenly from 0.5 to 0.98."""

    cells: int
    haystacks: int
    questions: int
    icc: float
    noise: float = 0.05
    loss: float = 0.0


@dataclass(frozen=True)
class Night:
    """`cells`, `rows`: intervals of the single cells and of everything judged; the rest: whether a rule failed."""

    cells: list[Difference]
    fails: bool
    overall_passes: bool
    fixed_tolerance_fails: bool
    unpaired_z_fails: bool


def simulate(rng: np.random.Generator, setting: Setting) -> Night:
    codes = np.repeat(np.arange(setting.haystacks), setting.questions)
    shares = np.linspace(0.5, 0.98, setting.cells)
    # Neighbouring scores go to different lengths and families, so that no row is all easy or all hard.
    sides = [draw(rng, codes, share, setting) for share in shares]
    cells = [paired_difference(*side, codes, margin=POLICY.margin) for side in sides]
    names = [f"length {i % _LENGTHS}" for i in range(setting.cells)]
    families = [f"family {i // _LENGTHS % _FAMILIES}" for i in range(setting.cells)]
    overall, *lengths = (_pooled(sides, codes, rows) for rows in _groups(names))
    by_family = [_pooled(sides, codes, rows) for rows in list(_groups(families))[1:]]
    panels = [[overall, *lengths], [*by_family, *cells]]
    return Night(
        cells=cells,
        fails=any(_any_fails(panel) for panel in panels),
        overall_passes=overall.low is not None and overall.low > -POLICY.margin,
        fixed_tolerance_fails=any(fixed_tolerance(*side) for side in sides),
        unpaired_z_fails=any(unpaired_z(*side) for side in sides),
    )


def draw(rng: np.random.Generator, codes: NDArray[np.intp], share: float, setting: Setting) -> tuple[Scores, Scores]:
    """Scores of baseline and candidate with means `share` and ``share - loss``."""

    def latent() -> Scores:
        haystack = rng.normal(size=int(codes.max()) + 1)[codes]
        return math.sqrt(setting.icc) * haystack + math.sqrt(1 - setting.icc) * rng.normal(size=len(codes))

    common = latent()
    first, second = (math.sqrt(1 - setting.noise) * common + math.sqrt(setting.noise) * latent() for _ in range(2))
    wanted = max(share - setting.loss, 0.01)
    return (first < special.ndtri(share)) * 1.0, (second < special.ndtri(wanted)) * 1.0


def fixed_tolerance(baseline: Scores, candidate: Scores) -> bool:
    """A score more than 0.08 below the expected one fails, whatever the number of samples."""
    return bool(candidate.mean() < baseline.mean() - FIXED_TOLERANCE)


def unpaired_z(baseline: Scores, candidate: Scores) -> bool:
    """Two scores with a standard error each, compared as if they came from different samples."""
    se = math.sqrt(sum(float(scores.var(ddof=1)) / len(scores) for scores in (baseline, candidate)))
    delta = float(candidate.mean() - baseline.mean())
    return delta < 0 and (se == 0 or delta / se < special.ndtri(0.025))


def _groups(names: list[str]) -> Iterator[list[int]]:
    yield list(range(len(names)))
    for name in dict.fromkeys(names):
        yield [i for i, other in enumerate(names) if other == name]


def _pooled(sides: list[tuple[Scores, Scores]], codes: NDArray[np.intp], rows: list[int]) -> Difference:
    haystacks = int(codes.max()) + 1
    return paired_difference(
        np.concatenate([sides[i][0] for i in rows]),
        np.concatenate([sides[i][1] for i in rows]),
        np.concatenate([codes + i * haystacks for i in rows]),
        margin=POLICY.margin,
    )


def _any_fails(panel: list[Difference]) -> bool:
    adjusted = holm([1.0 if row.p_beyond is None else row.p_beyond for row in panel])
    # Only a significant row can fail: the others need no verdict.
    return any(fails(row, p) for row, p in zip(panel, adjusted, strict=True) if p < (1 - POLICY.confidence) / 2)


def fails(row: Difference, p_holm: float | None) -> bool:
    return (
        decide(row, margin=POLICY.margin, confidence=POLICY.confidence, p_holm=p_holm, asked=row.n, sensitive=row).word
        == "fail"
    )


def false_alarms(settings: list[Setting], nights: int, seed: int) -> list[dict[str, Any]]:
    """`nights` of every setting: how often each rule fails, and how often a cell's interval holds the truth."""
    results = []
    for index, setting in enumerate(settings):
        rng = np.random.default_rng([seed, index])
        seen = [simulate(rng, setting) for _ in range(nights)]
        cells = [cell for night in seen for cell in night.cells]
        results.append(
            {
                "cells": setting.cells,
                "haystacks": setting.haystacks,
                "questions": setting.questions,
                "icc": setting.icc,
                "loss": setting.loss,
                "nights": nights,
                "failing_nights": sum(night.fails for night in seen),
                "passing_nights": sum(night.overall_passes for night in seen),
                "fixed_tolerance_failing_nights": sum(night.fixed_tolerance_fails for night in seen),
                "unpaired_z_failing_nights": sum(night.unpaired_z_fails for night in seen),
                "intervals": len(cells),
                "intervals_with_truth": sum(_holds(cell, -setting.loss) for cell in cells),
                "intervals_above_truth": sum(cell.low is not None and cell.low > -setting.loss for cell in cells),
                "settleable_intervals": sum(_is_settleable(cell) for cell in cells),
                "settleable_intervals_with_truth": sum(
                    _holds(cell, -setting.loss) for cell in cells if _is_settleable(cell)
                ),
            }
        )
    return results


def _holds(cell: Difference, truth: float) -> bool:
    # With scores of 0 and 1 a bound can be the truth itself but for rounding.
    return cell.low is not None and cell.high is not None and cell.low - 1e-12 <= truth <= cell.high + 1e-12


def _is_settleable(cell: Difference) -> bool:
    """Whether as many haystacks differ as any test needs to reject something; with fewer, coverage must be complete."""
    return cell.differing >= fewest_clusters(POLICY.confidence)


def power(losses: list[float], sizes: list[int], nights: int, seed: int) -> list[dict[str, Any]]:
    """Share of nights on which each rule finds a planted loss: one cell of 10 questions a haystack, score 0.85."""
    table = []
    for size in sizes:
        for loss in losses:
            rng = np.random.default_rng([seed, size, round(1000 * loss)])
            setting = Setting(1, size // 10, 10, icc=0.2, loss=loss)
            codes = np.repeat(np.arange(setting.haystacks), setting.questions)
            counts = dict.fromkeys(("fails", "fails_among_12", "passes", "fixed_tolerance", "unpaired_z"), 0)
            for _ in range(nights):
                side = draw(rng, codes, 0.85, setting)
                row = paired_difference(*side, codes, margin=POLICY.margin)
                p = row.p_beyond if row.p_beyond is not None else 1.0
                counts["fails"] += p < 0.025 and fails(row, p)
                counts["fails_among_12"] += p < 0.025 / 12 and fails(row, 12 * p)
                counts["passes"] += row.low is not None and row.low > -POLICY.margin
                counts["fixed_tolerance"] += fixed_tolerance(*side)
                counts["unpaired_z"] += unpaired_z(*side)
            shares = {name: round(count / nights, 3) for name, count in counts.items()}
            table.append({"samples": size, "loss": loss, **shares})
    return table


def required_samples(setting: Setting, nights: int, seed: int, score: float = 0.85) -> dict[str, Any]:
    """The size `more_samples` names where the truth is known, and the size at which 80% of nights settle."""
    rng = np.random.default_rng([seed, round(1000 * setting.loss), round(10 * setting.icc)])
    known, start = 40_000, 10
    codes = np.repeat(np.arange(known), setting.questions)
    large = paired_difference(*draw(rng, codes, score, setting), codes)
    n = start * setting.questions
    here = replace(
        large, n=n, clusters=start, delta=-setting.loss, se=(large.se or 0.0) * math.sqrt(known / start),
        differing=round(large.differing * start / known), assumed_effect=1.0,
    )  # fmt: skip
    more = more_samples(here, margin=POLICY.margin, confidence=POLICY.confidence, p_factor=1.0)
    if more is None or more.likely is None:
        raise ValueError(f"{setting}: no number of samples settles it")
    named = n + more.likely
    shares = []
    for factor in (0.7, 0.85, 1.0, 1.15, 1.3):
        haystacks = round(factor * named / setting.questions)
        codes = np.repeat(np.arange(haystacks), setting.questions)
        settled = 0
        for _ in range(nights):
            row = paired_difference(*draw(rng, codes, score, setting), codes)
            passes = row.low is not None and row.low > -POLICY.margin
            settled += fails(row, row.p_beyond) if setting.loss > POLICY.margin else passes
        shares.append((haystacks * setting.questions, settled / nights))
    found = _crossing(shares, POWER)
    return {
        "loss": setting.loss,
        "icc": setting.icc,
        "named": named,
        "found": found,
        "named_over_found": None if found is None else round(named / found, 3),
        "settled_at_named": round(shares[2][1], 3),
    }


def _crossing(shares: list[tuple[int, float]], wanted: float) -> int | None:
    """The size at which the share reaches `wanted`, between the sizes tried."""
    for (size, share), (next_size, next_share) in pairwise(shares):
        if share <= wanted <= next_share and next_share > share:
            return round(size + (next_size - size) * (wanted - share) / (next_share - share))
    return None
