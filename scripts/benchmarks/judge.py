"""The judge on simulated nights: false verdicts, coverage, power, and the samples it asks for, beside other rules."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

from benchmarks.nights import POLICY, Setting, decided, power, required_samples

_NIGHTS = 2_000
_POWER_NIGHTS = 400
_LOSSES = [0.01, 0.02, 0.03, 0.05, 0.10]
_SIZES = [100, 300, 1000]
_SHAPES = [(30, 10), (20, 5), (12, 8), (100, 3)]
_ICCS = [0.0, 0.2]
_RULES = ("kveval", "nemo", "nemo_by_haystack")


def measure() -> dict[str, Any]:
    """Returns the figures. Of every truth, `_NIGHTS` nights are judged by `judge_run`, spread over all shapes."""
    started = time.perf_counter()
    settings = [Setting(4, *shape, icc, lengths=2) for shape, icc in product(_SHAPES, _ICCS)]
    each = _NIGHTS // len(settings)
    at_margin = [Setting(4, *shape, icc, lengths=2, loss=POLICY.margin) for shape, icc in product(_SHAPES, _ICCS)]
    one_row = [Setting(1, *shape, 0.2, lengths=1, loss=POLICY.margin) for shape in [(30, 10), (100, 10)]]
    ruined = [Setting(1, haystacks, questions, 0.2, noise=0.0, lengths=1, ruined=0.04)
              for haystacks, questions in [(10, 50), (20, 25)]]  # fmt: skip
    return {
        "margin": POLICY.margin,
        "confidence": POLICY.confidence,
        "no_loss": _by_shape(decided(settings, each, seed=11)),
        "loss_of_exactly_the_margin": _by_shape(decided(at_margin, each, seed=12)),
        "loss_of_exactly_the_margin_in_one_row": _by_shape(decided(one_row, _NIGHTS // 2, seed=13)),
        "whole_haystacks_lost": _by_shape(decided(ruined, _NIGHTS // 10, seed=14)),
        "power": {"nights_each": _POWER_NIGHTS, "table": power(_LOSSES, _SIZES, _POWER_NIGHTS, seed=15)},
        "required_samples": [
            required_samples(Setting(1, 1, 10, icc, loss=loss), 800, seed=16)
            for loss, icc in [(0.0, 0.0), (0.0, 0.2), (0.0, 0.5), (0.01, 0.2), (0.05, 0.2), (0.10, 0.2)]
        ],
        "seconds": round(time.perf_counter() - started, 1),
    }


def _by_shape(results: list[dict[str, Any]]) -> dict[str, Any]:
    shapes = dict.fromkeys((row["haystacks"], row["questions"]) for row in results)
    by_shape = {
        f"{haystacks}x{questions}": _shares([r for r in results if (r["haystacks"], r["questions"]) == shape])
        for shape in shapes
        for haystacks, questions in [shape]
    }
    return {"all": _shares(results), **by_shape}


def _shares(results: list[dict[str, Any]]) -> dict[str, Any]:
    nights, intervals, settleable = (
        sum(r[key] for r in results) for key in ("nights", "intervals", "settleable_intervals")
    )

    def share(key: str, of: int) -> float | None:
        return round(float(sum(r[key] for r in results)) / of, 4) if of else None

    rules = {
        rule: {word: round(sum(r[rule][word] for r in results) / nights, 4) for word in ("pass", "fail", "undecided")}
        for rule in _RULES
    }
    return {
        "nights": nights,
        **rules,
        "fails_by_fixed_tolerance_0.08": share("fixed_tolerance_failing_nights", nights),
        "fails_by_unpaired_z": share("unpaired_z_failing_nights", nights),
        "coverage": share("intervals_with_truth", intervals),
        "low_end_above_truth": share("intervals_above_truth", intervals),
        "coverage_where_6_haystacks_differ": share("settleable_intervals_with_truth", settleable),
        "share_where_6_haystacks_differ": share("settleable_intervals", intervals),
    }
