"""What a plan can show agrees with what simulated runs of it show."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from kveval.judge.statistics.difference import paired_difference
from kveval.judge.statistics.planned import Planned, Spread

GREEDY, EXPECTED = Spread(0.06, 0.06), Spread(0.0081, None)


def planned(clusters: int, per_cluster: float, spread: Spread = GREEDY) -> Planned:
    return Planned(clusters, per_cluster, spread, 0.95)


@pytest.mark.parametrize("spread", [GREEDY, EXPECTED])
def test_a_plan_of_two_haystacks_cannot_pass(spread: Spread) -> None:
    assert not planned(2, 10, spread).can_pass(0.02)
    assert planned(2, 10, spread).chance_to_pass(0.02) == 0


def test_six_haystacks_can_pass_by_scores_that_move_on_every_sample_and_not_by_a_few_answers() -> None:
    assert planned(6, 10, EXPECTED).can_pass(0.02)
    assert not planned(6, 10, GREEDY).can_pass(0.02)
    assert planned(30, 10, GREEDY).can_pass(0.02)
    assert planned(190, 1, GREEDY).can_pass(0.02)
    assert not planned(100, 1, GREEDY).can_pass(0.02)


def test_the_best_outcome_of_a_plan_passes_where_it_is_said_to() -> None:
    codes, scores = np.repeat(np.arange(30), 10), np.ones(300)
    first, second = scores.copy(), scores.copy()
    second[[0, 10, 20]], first[[30, 40, 50]] = 0, 0
    found = paired_difference(first, second, codes)
    assert found.low is not None
    assert found.low > -0.02


def test_the_chance_to_pass_is_that_of_simulated_runs() -> None:
    rng = np.random.default_rng(2)
    passes = 0
    for _ in range(300):
        draw = rng.random(1000)
        first, second = (draw >= 0.03) * 1.0, ((draw < 0.03) | (draw >= 0.06)) * 1.0
        low = paired_difference(first, second, np.arange(1000) // 10).low
        passes += low is not None and low > -0.02
    assert planned(100, 10).chance_to_pass(0.02) == pytest.approx(passes / 300, abs=0.07)


def test_the_smallest_loss_that_is_detected_lies_beyond_the_margin_by_the_textbook() -> None:
    se = (0.0081 / 300) ** 0.5
    t = scipy_stats.t.ppf(0.975, 29) + scipy_stats.norm.ppf(0.8)
    assert planned(30, 10, EXPECTED).detectable_loss(0.02, rows=1) == pytest.approx(0.02 + t * se)
    many = planned(30, 10, EXPECTED).detectable_loss(0.02, rows=10)
    assert many is not None
    assert many > 0.02 + t * se
    assert planned(1, 10, EXPECTED).detectable_loss(0.02, rows=1) is None


def test_the_samples_to_pass_are_the_fewest_that_do() -> None:
    for margin in (0.01, 0.02, 0.05):
        needed = planned(2, 10).samples_to_pass(margin)
        assert needed is not None
        assert planned(needed // 10, 10).chance_to_pass(margin) >= 0.8
        assert planned(needed // 10 - 1, 10).chance_to_pass(margin) < 0.8
    textbook = 0.06 * (scipy_stats.norm.ppf([0.975, 0.8]).sum() / 0.02) ** 2
    assert planned(2, 10).samples_to_pass(0.02) == pytest.approx(textbook, rel=0.05)
