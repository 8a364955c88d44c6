"""Holm's correction equals that of statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from kveval.judge.statistics.multiple_tests import holm


def test_holm_equals_statsmodels() -> None:
    p_values = np.random.default_rng(10).random(40) ** 3
    assert holm(list(p_values)) == pytest.approx(multipletests(p_values, method="holm")[1])
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
