"""Counts of flips, and McNemar's exact test."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from kveval.judge.statistics.hypothesis_tests import flips, holm


@pytest.mark.parametrize(("down", "up"), [(21, 4), (0, 3), (5, 5), (0, 0)])
def test_equals_statsmodels_exact_mcnemar(down: int, up: int) -> None:
    first = np.r_[np.ones(down + 30), np.zeros(up + 10)].astype(bool)
    second = np.r_[np.zeros(down), np.ones(30), np.ones(up), np.zeros(10)].astype(bool)
    result = flips(first, second)
    assert (result.lost, result.gained) == (down, up)
    if down + up:
        assert result.p == pytest.approx(mcnemar([[30, down], [up, 10]], exact=True).pvalue)
    else:
        assert result.p == 1


def test_holm_equals_statsmodels() -> None:
    p_values = np.random.default_rng(10).random(40) ** 3
    assert holm(list(p_values)) == pytest.approx(multipletests(p_values, method="holm")[1])
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
