"""The number of further samples that would settle a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from kveval.config.judge import Policy
from kveval.judge.comparison.more_samples import POWER, more_samples
from kveval.judge.comparison.verdict import Verdict, decide
from kveval.judge.statistics.difference import Difference, paired_difference

POLICY = Policy()


def difference(down: int, up: int, n: int, clusters: int) -> Difference:
    """`down` and `up` flips spread evenly over `n` samples in equal clusters, half of the others correct."""
    order = np.random.default_rng([down, up, n]).permutation(n)
    baseline, candidate = np.arange(n) % 2 * 1.0, np.arange(n) % 2 * 1.0
    baseline[order[:down]], candidate[order[:down]] = 1, 0
    baseline[order[down : down + up]], candidate[order[down : down + up]] = 0, 1
    return paired_difference(baseline, candidate, np.arange(n) // (n // clusters))


def verdict(found: Difference, **overrides: Any) -> Verdict:
    arguments = {"policy": POLICY, "p_holm": found.p, "asked": found.n, "sensitive": found, **overrides}
    return decide(found, **arguments)


def nights(rng: np.random.Generator, n: int, down: float, up: float, policy: Policy) -> float:
    """Share of `verdict`s that settle, over independent samples with these flip rates, 5 to a haystack."""
    settled = 0
    for _ in range(400):
        draw = rng.random(n)
        baseline = np.where(draw < down, 1.0, np.where(draw < down + up, 0.0, rng.random(n) < 0.8))
        candidate = np.where(draw < down, 0.0, np.where(draw < down + up, 1.0, baseline))
        found = paired_difference(baseline, candidate, np.arange(n) // 5)
        settled += verdict(found, policy=policy).word != "undecided"
    return settled / 400


@pytest.mark.parametrize(("down", "up", "n"), [(0.03, 0.03, 200), (0.09, 0.02, 100)])
def test_more_samples_is_right_within_15_percent(down: float, up: float, n: int) -> None:
    truth = difference(round(down * n), round(up * n), n, n // 5)
    delta = up - down
    # Independent samples: the exact variance instead of one night's estimate.
    truth = replace(truth, delta=delta, se=((down + up - delta**2) / n) ** 0.5, square=down + up, assumed_effect=1.0)
    more = more_samples(truth, POLICY, p_factor=1.0)
    assert more is not None
    rng = np.random.default_rng(8)
    assert nights(rng, int((n + more) * 0.85), down, up, POLICY) < POWER
    assert nights(rng, int((n + more) * 1.15), down, up, POLICY) > POWER


def test_more_samples_equals_the_textbook_size() -> None:
    truth = replace(difference(15, 15, 500, 500), delta=0.0)
    assert truth.se is not None
    z = scipy_stats.norm.ppf([0.975, 0.8]).sum()
    size = 500 * (z * truth.se / POLICY.margin) ** 2
    more = more_samples(truth, POLICY, p_factor=1.0)
    assert more is not None
    # A little more than the textbook: the sparse interval adds its z^2 samples.
    assert size <= more + 500 <= 1.05 * size


def test_at_the_margin_no_number_settles() -> None:
    truth = replace(difference(15, 15, 500, 100), delta=-0.02)
    assert more_samples(truth, POLICY, p_factor=1.0) is None
    assert "no practical number" in verdict(truth, p_holm=1.0).reason
