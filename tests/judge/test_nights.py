"""The judge on simulated nights, the fast part of `scripts/bench judge`: the same seeds give the same figures."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from support.benchmarks import benchmark


@pytest.fixture(scope="module")
def nights() -> ModuleType:
    return benchmark("nights")


@pytest.fixture(scope="module")
def other_rules() -> ModuleType:
    return benchmark("other_rules")


def test_nights_without_a_change(nights: ModuleType) -> None:
    settings = [
        nights.Setting(4, haystacks, questions, icc, lengths=2)
        for haystacks, questions, icc in [(30, 10, 0.0), (20, 5, 0.2), (12, 8, 0.2), (100, 3, 0.2)]
    ]
    results = nights.decided(settings, 12, seed=1)
    assert sum(row["kveval"]["fail"] for row in results) <= 2
    for row in results:
        # Where hardly a haystack differs, intervals cover more than they must, never less.
        assert row["intervals_with_truth"] / row["intervals"] >= 0.88


def test_nights_with_a_loss_of_exactly_the_margin_are_neither_passed_nor_failed(nights: ModuleType) -> None:
    (row,) = nights.decided([nights.Setting(4, 30, 10, 0.2, loss=0.02, lengths=2)], 40, seed=2)
    assert row["kveval"]["fail"] <= 3
    assert row["kveval"]["pass"] <= 2
    assert row["kveval"]["undecided"] >= 35


def test_nights_with_a_large_loss_fail(nights: ModuleType) -> None:
    (row,) = nights.decided([nights.Setting(4, 30, 10, 0.2, loss=0.1, lengths=2)], 12, seed=3)
    assert row["kveval"] == {"pass": 0, "fail": 12, "undecided": 0}


def test_nights_that_lose_whole_haystacks_are_not_passed_by_equal_answers(nights: ModuleType) -> None:
    """4% of haystacks are lost: most nights of 10 haystacks see none of it. NeMo's gate passes those nights."""
    (row,) = nights.decided([nights.Setting(1, 10, 50, 0.2, noise=0.0, lengths=1, ruined=0.04)], 40, seed=4)
    assert row["kveval"]["pass"] == 0
    assert row["nemo"]["pass"] >= 20


def test_power_grows_with_loss_and_size_and_beats_the_naive_rules(nights: ModuleType) -> None:
    table = {(row["samples"], row["loss"]): row for row in nights.power([0.02, 0.1], [100, 1000], 25, seed=5)}
    for size in (100, 1000):
        assert table[size, 0.02]["fails"] <= 0.12
        assert table[size, 0.02]["fails"] < table[size, 0.1]["fails"]
    assert table[100, 0.1]["fails"] < table[1000, 0.1]["fails"] == 1


@pytest.mark.parametrize(("loss", "icc"), [(0.0, 0.2), (0.05, 0.5)])
def test_required_samples_are_right_within_15_percent(nights: ModuleType, loss: float, icc: float) -> None:
    result = nights.required_samples(nights.Setting(1, 1, 10, icc, loss=loss), 400, seed=4)
    assert result["found"] is not None
    assert 0.85 <= result["named_over_found"] <= 1.15


def test_nemos_gate_is_its_published_rule(other_rules: ModuleType) -> None:
    """A breach needs the whole interval beyond `max_drop`, a pass all of it within; one benchmark decides for all."""
    n = 1000
    same, lost = (np.ones(n), np.ones(n), None), (np.ones(n), (np.arange(n) >= 60) * 1.0, None)
    some = (np.ones(n), (np.arange(n) >= 20) * 1.0, None)
    assert other_rules.nemo_gate([same], 0.02) == "pass"
    assert other_rules.nemo_gate([some], 0.02) == "undecided"
    assert other_rules.nemo_gate([same, some], 0.02) == "undecided"
    assert other_rules.nemo_gate([same, some, lost], 0.02) == "fail"
    assert other_rules.nemo_gate([(np.ones(9), np.ones(9), None)], 0.02) == "undecided"
    # With categories, z and not t: half of the categories lose everything.
    codes = np.repeat(np.arange(10), 10)
    half = (np.ones(100), (codes < 5) * 1.0, codes)
    assert other_rules.nemo_gate([half], 0.1) == "fail"
    assert other_rules.nemo_gate([half], 0.2) == "undecided"
