"""The judge on simulated nights, the fast part of `scripts/bench judge`: the same seeds give the same figures."""

from __future__ import annotations

from types import ModuleType

import pytest
from support.benchmarks import benchmark


@pytest.fixture(scope="module")
def nights() -> ModuleType:
    return benchmark("nights")


def test_nights_without_a_change(nights: ModuleType) -> None:
    settings = [
        nights.Setting(cells, haystacks, questions, icc)
        for haystacks, questions, cells, icc in [
            (30, 10, 12, 0.0), (30, 10, 24, 0.5), (20, 5, 60, 0.2), (12, 8, 24, 0.2), (100, 3, 12, 0.5),
        ]
    ]  # fmt: skip
    results = nights.false_alarms(settings, 60, seed=1)
    count = sum(row["nights"] for row in results)
    intervals = sum(row["settleable_intervals"] for row in results)
    assert sum(row["failing_nights"] for row in results) / count <= 0.05
    assert 0.93 <= sum(row["settleable_intervals_with_truth"] for row in results) / intervals <= 0.97
    for row in results:
        # Where hardly a haystack differs, intervals cover more than they must, never less.
        assert row["intervals_with_truth"] / row["intervals"] >= 0.93
    # The same nights by a tolerance that does not know how many samples there are.
    few = next(row for row in results if row["haystacks"] == 12)
    assert few["fixed_tolerance_failing_nights"] > 2 * few["failing_nights"]


def test_nights_with_a_loss(nights: ModuleType) -> None:
    (row,) = nights.false_alarms([nights.Setting(12, 30, 10, 0.2, loss=0.03)], 40, seed=2)
    assert row["failing_nights"] >= 38
    assert row["passing_nights"] == 0
    assert 0.93 <= row["intervals_with_truth"] / row["intervals"] <= 0.98


def test_power_grows_with_loss_and_size_and_beats_the_naive_rules(nights: ModuleType) -> None:
    table = {
        (row["samples"], row["loss"]): row for row in nights.power([0.01, 0.05, 0.1], [100, 300, 1000], 100, seed=3)
    }
    for size in (100, 300, 1000):
        assert table[size, 0.01]["fails"] < table[size, 0.05]["fails"] <= table[size, 0.1]["fails"]
    for loss in (0.05, 0.1):
        assert table[100, loss]["fails"] < table[1000, loss]["fails"]
    found = table[300, 0.05]
    assert found["fails"] > 2 * found["unpaired_z"]
    assert found["fails"] > 5 * found["fixed_tolerance"]
    assert table[1000, 0.05]["fails"] == 1
    assert max(row["passes"] for (_, loss), row in table.items() if loss > 0.02) <= 0.05


@pytest.mark.parametrize(("loss", "icc"), [(0.0, 0.2), (0.05, 0.5)])
def test_required_samples_are_right_within_15_percent(nights: ModuleType, loss: float, icc: float) -> None:
    result = nights.required_samples(nights.Setting(1, 1, 10, icc, loss=loss), 500, seed=4)
    assert result["found"] is not None
    assert 0.85 <= result["named_over_found"] <= 1.15
