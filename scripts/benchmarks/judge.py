"""The judge on simulated nights: false alarms, coverage, power, and the samples it asks for."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

from benchmarks.nights import Setting, false_alarms, power, required_samples

_NIGHTS = 56
_POWER_NIGHTS = 400
_LOSSES = [0.01, 0.02, 0.03, 0.05, 0.10]
_SIZES = [100, 300, 1000]
_SHAPES = [(30, 10), (20, 5), (12, 8), (100, 3)]
_CELLS = [12, 24, 60]
_ICCS = [0.0, 0.2, 0.5]


def measure() -> dict[str, Any]:
    started = time.perf_counter()
    settings = [Setting(cells, *shape, icc) for shape, cells, icc in product(_SHAPES, _CELLS, _ICCS)]
    unchanged = false_alarms(settings, _NIGHTS, seed=11)
    lossy = {
        loss: false_alarms([Setting(12, *shape, 0.2, loss=loss) for shape in _SHAPES], 2 * _NIGHTS, seed=12)
        for loss in (0.01, 0.03)
    }
    return {
        "margin": 0.02,
        "confidence": 0.95,
        "without_any_change": {
            **_shares(unchanged),
            "by_haystacks_and_questions": {
                f"{haystacks}x{questions}": _shares([r for r in unchanged if r["haystacks"] == haystacks])
                for haystacks, questions in _SHAPES
            },
            "by_icc": {str(icc): _shares([r for r in unchanged if r["icc"] == icc]) for icc in _ICCS},
            "by_cells": {str(cells): _shares([r for r in unchanged if r["cells"] == cells]) for cells in _CELLS},
        },
        "with_a_loss_in_every_cell": {
            str(loss): {f"{row['haystacks']}x{row['questions']}": _shares([row]) for row in rows}
            for loss, rows in lossy.items()
        },
        "power": {"nights_each": _POWER_NIGHTS, "table": power(_LOSSES, _SIZES, _POWER_NIGHTS, seed=13)},
        "required_samples": [
            required_samples(Setting(1, 1, 10, icc, loss=loss), 800, seed=14)
            for loss, icc in [(0.0, 0.0), (0.0, 0.2), (0.0, 0.5), (0.01, 0.2), (0.05, 0.2), (0.10, 0.2)]
        ],
        "seconds": round(time.perf_counter() - started, 1),
    }


def _shares(results: list[dict[str, Any]]) -> dict[str, Any]:
    nights, intervals, settleable = (
        sum(r[key] for r in results) for key in ("nights", "intervals", "settleable_intervals")
    )

    def share(key: str, of: int) -> float:
        return round(float(sum(r[key] for r in results)) / of, 4)

    return {
        "nights": nights,
        "fails": share("failing_nights", nights),
        "passes_overall": share("passing_nights", nights),
        "fails_by_fixed_tolerance_0.08": share("fixed_tolerance_failing_nights", nights),
        "fails_by_unpaired_z": share("unpaired_z_failing_nights", nights),
        "coverage": share("intervals_with_truth", intervals),
        "low_end_above_truth": share("intervals_above_truth", intervals),
        "coverage_where_6_haystacks_differ": share("settleable_intervals_with_truth", settleable),
        "share_where_6_haystacks_differ": round(settleable / intervals, 4),
    }
