from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kveval.judge.looks.futility import chance_to_decide


def simulated(delta: float, se: float, share: float, margin: float, confidence: float) -> float:
    """The same chance by drawing the true mean and the rest of the plan."""
    rng = np.random.default_rng(5)
    mean = rng.normal(delta, se, 200_000)
    rest = rng.normal(mean, se * np.sqrt(share / (1 - share)))
    final, error = share * delta + (1 - share) * rest, se * np.sqrt(share)
    z = stats.norm.ppf(0.5 + confidence / 2)
    return float(np.mean((final - z * error > -margin) | (final + z * error < -margin)))


@pytest.mark.parametrize("delta", [0.0, -0.01, -0.02, -0.04])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_the_chance_is_that_of_simulated_plans(delta: float, share: float) -> None:
    found = chance_to_decide(delta, 0.01, 10_000, share=share, margin=0.02, last_confidence=0.966)
    assert found == pytest.approx(simulated(delta, 0.01, share, 0.02, 0.966), abs=0.01)


def test_a_loss_at_the_margin_is_hardly_decided_by_the_rest_and_a_clear_one_surely() -> None:
    assert chance_to_decide(-0.02, 0.01, 50, share=0.9, margin=0.02, last_confidence=0.966) < 0.05
    assert chance_to_decide(-0.1, 0.01, 50, share=0.5, margin=0.02, last_confidence=0.966) > 0.99
    assert chance_to_decide(0.0, 0.004, 50, share=0.5, margin=0.02, last_confidence=0.966) > 0.99


def test_without_an_error_the_chance_is_certain() -> None:
    assert chance_to_decide(0.0, 0.0, 50, share=0.5, margin=0.02, last_confidence=0.966) == 1.0
