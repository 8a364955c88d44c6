"""Paired differences equal statsmodels and exact tests, and cover what they claim."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats

from kveval.judge.statistics.clusters import clustered_se
from kveval.judge.statistics.difference import paired_difference, sign_flip, sparse_bounds


def unequal_clusters(rng: np.random.Generator, count: int) -> np.ndarray:
    return np.repeat(np.arange(count), rng.integers(1, 9, count))


def correlated(rng: np.random.Generator, codes: np.ndarray, shares: tuple[float, ...], icc: float) -> list[np.ndarray]:
    """0/1 scores with the given means; `icc` of the latent normal is the haystack's, half of each the sample's own."""
    haystack = rng.normal(size=codes.max() + 1)[codes]
    own = rng.normal(size=len(codes))
    answers = []
    for share in shares:
        noise = rng.normal(size=codes.max() + 1)[codes] * math.sqrt(icc) + rng.normal(size=len(codes)) * math.sqrt(
            1 - icc
        )
        latent = math.sqrt(0.9) * (math.sqrt(icc) * haystack + math.sqrt(1 - icc) * own) + math.sqrt(0.1) * noise
        answers.append((latent < scipy_stats.norm.ppf(share)).astype(float))
    return answers


def test_equals_statsmodels_cluster_t_interval() -> None:
    rng = np.random.default_rng(5)
    codes = unequal_clusters(rng, 60)
    baseline, candidate = correlated(rng, codes, (0.7, 0.55), 0.3)
    fit = sm.OLS(candidate - baseline, np.ones(len(codes))).fit(
        cov_type="cluster", cov_kwds={"groups": codes, "df_correction": True}, use_t=True
    )
    result = paired_difference(baseline, candidate, codes)
    assert result.method == "clustered_t"
    assert result.delta == pytest.approx(fit.params[0])
    low, high = fit.conf_int()[0]
    # The more careful of t and of t corrected for skewness.
    assert result.low is not None
    assert result.high is not None
    assert result.p is not None
    assert low - 0.003 < result.low <= low + 1e-12
    assert high - 1e-12 <= result.high < high + 0.003
    assert fit.pvalues[0] * (1 - 1e-9) <= result.p < 1.3 * fit.pvalues[0]


def test_few_clusters_permute_signs() -> None:
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(12), 40)
    baseline, candidate = correlated(rng, codes, (0.7, 0.6), 0.1)
    result = paired_difference(baseline, candidate, codes)
    assert result.method == "sign_flip"
    sums = np.bincount(codes, candidate - baseline)
    reference = scipy_stats.permutation_test((sums,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert result.p == pytest.approx(reference.pvalue)


def test_a_collapse_is_certain_even_in_four_haystacks() -> None:
    result = paired_difference(np.ones(40), np.zeros(40), np.repeat(np.arange(4), 10))
    assert result.method == "few_clusters_t"
    assert result.delta == -1
    assert result.p is not None
    assert result.p < 0.001
    assert result.high is not None
    assert result.high < -0.5


def test_a_collapse_in_eight_haystacks_is_not_limited_by_the_permutation() -> None:
    result = paired_difference(np.ones(80), np.zeros(80), np.repeat(np.arange(8), 10))
    assert result.method == "sign_flip"
    assert result.p is not None
    assert result.p < 2**-7 / 100


@pytest.mark.parametrize("clusters", [3, 10, 19, 20, 50])
def test_equal_answers_are_not_certainty(clusters: int) -> None:
    codes = np.repeat(np.arange(clusters), 2)
    scores = np.tile([1.0, 0.0], clusters)
    result = paired_difference(scores, scores, codes)
    assert result.delta == 0
    assert result.p == 1
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    assert result.low is not None
    assert result.low <= -z2 / (clusters + z2) + 1e-12


def test_equal_answers_are_bounded_by_their_haystacks_unless_something_tells_how_losses_cluster() -> None:
    codes = np.repeat(np.arange(30), 10)
    scores = np.tile([1.0, 0.0], 150)
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    alone = paired_difference(scores, scores, codes)
    assert (alone.low, alone.assumed_effect) == pytest.approx((-z2 / (30 + z2), 10))
    independent = np.random.default_rng(3).normal(0, 0.01, 300)
    told = paired_difference(scores, scores, codes, alike=independent)
    assert told.low is not None
    assert told.low > -z2 / (200 + z2)
    together = paired_difference(scores, scores, codes, alike=independent[codes])
    assert together.low == pytest.approx(alone.low, rel=0.1)


def test_one_lost_answer_is_no_better_evidence_than_none() -> None:
    codes, scores = np.repeat(np.arange(30), 10), np.ones(300)
    lows = []
    for lost in range(3):
        candidate = scores.copy()
        candidate[10 * np.arange(lost)] = 0
        low = paired_difference(scores, candidate, codes).low
        assert low is not None
        lows.append(low)
    assert max(lows) < -0.05


@pytest.mark.parametrize(("haystacks", "questions"), [(10, 50), (20, 25), (12, 30)])
def test_nights_that_lose_whole_haystacks_rarely_pass(haystacks: int, questions: int) -> None:
    """Each haystack is lost with a chance of 4%. Most nights of 10 see none of it."""
    rng = np.random.default_rng(haystacks)
    codes = np.repeat(np.arange(haystacks), questions)
    passes = 0
    for _ in range(200):
        candidate = (rng.random(haystacks) >= 0.04)[codes] * 1.0
        low = paired_difference(np.ones(len(codes)), candidate, codes).low
        passes += low is not None and low > -0.02
    assert passes == 0


@pytest.mark.parametrize(("differing", "widened"), [(5, True), (6, False)])
def test_is_widened_only_where_no_test_could_reject(differing: int, widened: bool) -> None:
    codes = np.repeat(np.arange(40), 5)
    first = np.ones(200)
    second = first.copy()
    second[5 * np.arange(differing)] = 0
    result = paired_difference(first, second, codes)
    se = clustered_se(second - first, codes)
    half = scipy_stats.t.ppf(0.975, 39) * se
    # Whole haystacks of 5 have the weight of one that differs.
    effective = 200 / (1 + 4 / (1 + differing))
    sparse_low, _, _ = sparse_bounds(-differing / 200, differing / 200, effective, confidence=0.95)
    assert result.differing == differing
    assert result.low is not None
    by_t = -differing / 200 - half
    assert (result.low == pytest.approx(sparse_low)) == widened
    assert result.low < by_t
    assert widened or result.low > 1.3 * by_t


def test_one_haystack_gives_a_difference_without_an_interval() -> None:
    result = paired_difference([1, 1, 0], [1, 0, 0], ["h"] * 3)
    assert result.delta == pytest.approx(-1 / 3)
    assert result.low is None
    assert result.p is None
    assert result.reason == "only one context, so the error cannot be estimated"


def test_no_samples() -> None:
    result = paired_difference([], [], [])
    assert (result.n, result.delta, result.p) == (0, None, None)
    assert result.reason == "no questions answered by both"


def test_refuses_what_is_not_a_score() -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        paired_difference([1.0, float("nan")], [1.0, 1.0], [0, 1])
    with pytest.raises(ValueError, match="2 baseline scores for 1 candidate scores"):
        paired_difference([1.0, 0.0], [1.0], [0, 1])


def test_the_sign_flip_interval_holds_what_the_test_does_not_reject() -> None:
    rng = np.random.default_rng(7)
    sums, sizes = rng.normal(size=9), rng.integers(1, 6, 9).astype(float)
    low, high, _ = sign_flip(sums, sizes, confidence=0.95)

    def p_at(supposed: float) -> float:
        residuals = sums - supposed * sizes
        totals = [sum(s * r for s, r in zip(signs, residuals, strict=True)) for signs in
                  itertools.product((-1, 1), repeat=9)]  # fmt: skip
        # Each side gets 12 of the 512 sign vectors: equal tails, as the interval has.
        side = min(sum(t <= sum(residuals) + 1e-12 for t in totals), sum(t >= sum(residuals) - 1e-12 for t in totals))
        return 2 * side / 512

    for end, outward in ((low, -1e-6), (high, 1e-6)):
        assert p_at(end + outward) <= 0.05
        assert p_at(end - outward) > 0.05


def test_sparse_bounds_equal_tangos_interval_without_any_difference() -> None:
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    low, high, _ = sparse_bounds(0.0, 0.0, 300, confidence=0.95)
    assert (low, high) == pytest.approx((-z2 / (300 + z2), z2 / (300 + z2)))


@pytest.mark.parametrize("losses", [0, 1, 3, 10])
def test_sparse_bounds_are_close_to_the_exact_binomial_bound(losses: int) -> None:
    low, _, _ = sparse_bounds(-losses / 300, losses / 300, 300, confidence=0.95)
    exact = scipy_stats.binomtest(losses, 300).proportion_ci(0.95, method="exact").high
    assert -low == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(("clusters", "size"), [(12, 10), (30, 10), (100, 3)])
@pytest.mark.parametrize("icc", [0.0, 0.5])
def test_simulated_coverage(clusters: int, size: int, icc: float) -> None:
    rng = np.random.default_rng([clusters, int(10 * icc)])
    codes = np.repeat(np.arange(clusters), size)
    covered = 0
    for _ in range(400):
        baseline, candidate = correlated(rng, codes, (0.75, 0.72), icc)
        result = paired_difference(baseline, candidate, codes)
        assert result.low is not None
        assert result.high is not None
        covered += result.low <= -0.03 <= result.high
    assert 0.925 <= covered / 400 <= 0.99
