"""The divergence of a token, against a direct computation over the whole vocabulary."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_softmax

from kveval.judge.divergence.tokens import TokenDivergence, token_divergence

TOKENS, VOCABULARY = 200, 64


def pair_of(seed: int, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    logits = 3 * generator.standard_normal((TOKENS, VOCABULARY))
    moved = logits + noise * generator.standard_normal(logits.shape)
    return log_softmax(logits, axis=1), log_softmax(moved, axis=1)


def compared(ours: np.ndarray, theirs: np.ndarray, k: int, text: np.ndarray) -> TokenDivergence:
    """What a reading of the k most likely tokens and the tail gives."""
    rows = np.arange(len(ours))
    ids = np.argsort(-ours, axis=1)[:, :k]

    def tail(logprobs: np.ndarray) -> np.ndarray:
        rest = logprobs.copy()
        rest[rows[:, None], ids] = -np.inf
        with np.errstate(divide="ignore"):
            return np.log(np.exp(rest).sum(axis=1)).astype(np.float32)

    return token_divergence(
        baseline_kept=ours[rows[:, None], ids].astype(np.float32),
        variant_kept=theirs[rows[:, None], ids].astype(np.float32),
        baseline_tail=tail(ours),
        variant_tail=tail(theirs),
        baseline_logprobs=ours[rows, text].astype(np.float32),
        variant_logprobs=theirs[rows, text].astype(np.float32),
        baseline_argmax=ours.argmax(axis=1).astype(np.int32),
        variant_argmax=theirs.argmax(axis=1).astype(np.int32),
    )


TEXT = np.random.default_rng(9).integers(0, VOCABULARY, TOKENS)


def full_kld(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    return (np.exp(ours) * (ours - theirs)).sum(axis=1)


def test_all_tokens_kept_is_the_divergence_itself() -> None:
    ours, theirs = pair_of(1)
    result = compared(ours, theirs, VOCABULARY, TEXT)
    np.testing.assert_allclose(result.kld, full_kld(ours, theirs), atol=1e-6)
    assert result.tail.max() == 0
    assert result.same_top.tolist() == (ours.argmax(axis=1) == theirs.argmax(axis=1)).tolist()
    np.testing.assert_allclose(result.baseline_logprob, ours[np.arange(TOKENS), TEXT], rtol=1e-6)
    np.testing.assert_allclose(result.variant_logprob, theirs[np.arange(TOKENS), TEXT], rtol=1e-6)


def test_fewer_tokens_are_a_lower_bound_that_rises_with_every_token_kept() -> None:
    ours, theirs = pair_of(2)
    bounds = [compared(ours, theirs, k, TEXT).kld for k in (1, 4, 16, 48, 63, VOCABULARY)]
    for lower, higher in pairwise(bounds):
        assert (lower <= higher + 1e-6).all()
    assert (bounds[0] >= -1e-6).all()


def test_what_moves_within_the_tail_is_hidden() -> None:
    ours, _ = pair_of(3)
    theirs, order = ours.copy(), np.argsort(-ours, axis=1)
    rows = np.arange(TOKENS)
    first, second = order[:, 30], order[:, 50]
    theirs[rows, first], theirs[rows, second] = ours[rows, second], ours[rows, first]
    assert np.abs(compared(ours, theirs, 16, TEXT).kld).max() < 1e-6
    assert full_kld(ours, theirs).mean() > 1e-4


def test_the_same_distribution_has_no_divergence() -> None:
    ours, _ = pair_of(4)
    assert compared(ours, ours, 16, TEXT).kld.tolist() == [0.0] * TOKENS


@pytest.mark.filterwarnings("error")
def test_a_token_that_a_variant_never_says_makes_the_divergence_infinite() -> None:
    ours, theirs = pair_of(5)
    theirs[7, ours[7].argmax()] = -np.inf
    result = compared(ours, theirs, 16, np.full(TOKENS, 3))
    assert np.flatnonzero(~np.isfinite(result.kld)).tolist() == [7]
    assert result.kld[7] == np.inf


@pytest.mark.filterwarnings("error")
def test_even_if_the_baseline_hardly_says_it() -> None:
    ours, theirs = pair_of(5)
    rarest = int(ours[7].argmin())
    ours[7, rarest], theirs[7, rarest] = -2000.0, -np.inf
    assert compared(ours, theirs, VOCABULARY, np.zeros(TOKENS, int)).kld[7] == np.inf


def test_the_texts_own_token_is_seen_even_if_it_was_not_kept() -> None:
    ours, theirs = pair_of(5)
    text = ours.argmin(axis=1)
    theirs[7, text[7]] = -np.inf
    assert np.flatnonzero(np.isposinf(compared(ours, theirs, 16, text).kld)).tolist() == [7]
    ours[7, text[7]] = -np.inf
    assert np.isfinite(compared(ours, theirs, 16, text).kld).all()


def test_a_tiny_probability_is_a_number() -> None:
    # log-softmax of finite logits in float32 is finite: exp of it is 0, and the divergence large.
    ours, theirs = pair_of(5)
    text = ours.argmin(axis=1)
    theirs[7, text[7]] = -1e30
    assert np.isfinite(compared(ours, theirs, 16, text).kld).all()
    theirs[8, ours[8].argmax()] = -1000.0
    assert 100 < compared(ours, theirs, 16, text).kld[8] < 1000


@pytest.mark.parametrize("of_baseline", [False, True])
@pytest.mark.filterwarnings("error")
def test_what_is_not_a_number_is_undefined_and_never_the_same_top(of_baseline: bool) -> None:
    ours, theirs = pair_of(5)
    broken = ours if of_baseline else theirs
    before = compared(ours, ours, 16, np.full(TOKENS, 3))
    broken[7] = np.nan
    result = compared(ours, theirs if not of_baseline else ours, 16, np.full(TOKENS, 3))
    assert np.flatnonzero(np.isnan(result.kld)).tolist() == [7]
    assert result.is_undefined_baseline.tolist() == [of_baseline and row == 7 for row in range(TOKENS)]
    assert before.same_top[7]
    assert not result.same_top[7]


def test_a_token_that_the_baseline_never_says_adds_nothing() -> None:
    ours, theirs = pair_of(6)
    ours[:, 5] = theirs[:, 5] = -np.inf
    ours, theirs = log_softmax(ours, axis=1), log_softmax(theirs, axis=1)
    result = compared(ours, theirs, VOCABULARY, np.zeros(TOKENS, int))
    assert np.isfinite(result.kld).all()
    kept = np.delete(np.arange(VOCABULARY), 5)
    np.testing.assert_allclose(result.kld, full_kld(ours[:, kept], theirs[:, kept]), atol=1e-6)
