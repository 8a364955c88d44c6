"""The number of questions per haystack that gives most certainty for the time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kveval.judge.statistics.clusters import clustered_se
from kveval.measure.questions.balance import Clustering, balanced, most_questions, time_for_certainty


@pytest.mark.parametrize(("prefill", "correlation"), [(4.0, 0.05), (60.0, 0.05), (4.0, 0.3), (0.5, 0.1)])
def test_with_many_samples_it_is_the_optimum_of_two_stage_sampling(prefill: float, correlation: float) -> None:
    optimum = math.sqrt(prefill * (1 - correlation) / correlation)
    assert balanced(prefill, Clustering(correlation), 100_000) == pytest.approx(optimum, abs=0.6)


def test_questions_that_are_not_alike_share_a_haystack_as_far_as_verdicts_allow() -> None:
    assert balanced(4.0, Clustering(0.0), 600) > balanced(4.0, Clustering(0.05), 600)
    assert balanced(1000.0, Clustering(0.0), 60) == 10
    assert balanced(4.0, Clustering(0.999), 600) == 1


@pytest.mark.parametrize("samples", [1, 5, 6, 7, 11, 13, 20, 31, 100, 400])
@pytest.mark.parametrize("fewest", [6, 8])
def test_a_pass_stays_possible(samples: int, fewest: int) -> None:
    clustering = Clustering(0.001, fewest_contexts=fewest)
    contexts = math.ceil(samples / balanced(1e6, clustering, samples))
    assert contexts >= min(samples, fewest)
    assert most_questions(samples, clustering) >= 1


def test_few_samples_get_more_contexts_than_many() -> None:
    few, many = balanced(20.0, Clustering(), 60), balanced(20.0, Clustering(), 6000)
    assert few < many


def test_the_time_is_that_of_simulated_nights() -> None:
    """The squared error of simulated means times their cost is in the ratio that the formula says."""
    rng = np.random.default_rng(7)
    rho, prefill, samples = 0.2, 6.0, 600
    found = {}
    for questions in (2, 20):
        codes = np.repeat(np.arange(samples // questions), questions)
        shared = rng.normal(size=(2000, codes.max() + 1))[:, codes]
        values = math.sqrt(rho) * shared + math.sqrt(1 - rho) * rng.normal(size=(2000, samples))
        cost = samples * (prefill / questions + 1)
        found[questions] = float(values.mean(axis=1).var()) * cost
        assert clustered_se(values[0], codes) > 0
    said = {m: time_for_certainty(m, prefill, Clustering(rho), samples) for m in found}
    assert found[20] / found[2] == pytest.approx(said[20] / said[2], rel=0.12)
