"""The number of samples that settles a verdict equals the textbook's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from kveval.judge.statistics.difference import paired_difference
from kveval.judge.statistics.power import more_samples


def test_a_loss_beyond_the_margin_needs_the_samples_that_show_it() -> None:
    """8% lost and 1% gained of 500 samples that share no context: 7 points against a margin of 5."""
    baseline, candidate = np.ones(500), np.ones(500)
    candidate[:40], baseline[40:45] = 0, 0
    found = paired_difference(baseline, candidate, np.arange(500), margin=0.05)
    assert found.se is not None
    z = scipy_stats.norm.ppf([0.975, 0.8]).sum()
    more = more_samples(found, margin=0.05, confidence=0.95, p_factor=1.0)
    assert more is not None
    assert more + 500 == pytest.approx(500 * (z * found.se / 0.02) ** 2, rel=0.01)
