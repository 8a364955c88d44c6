"""llama.cpp's figures, from their definitions, with errors that know that the tokens of a text go together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kveval.judge.divergence.summary import by_position, growth, summarize
from kveval.judge.divergence.tokens import TokenDivergence

TEXTS, LENGTH = 12, 100


def tokens_of(kld: np.ndarray, seed: int = 0) -> TokenDivergence:
    """Texts of equal length, one after the other. kld: [texts, tokens]."""
    generator = np.random.default_rng(seed)
    count = kld.size
    return TokenDivergence(
        position=np.tile(np.arange(kld.shape[1]), kld.shape[0]),
        kld=kld.ravel(),
        same_top=generator.random(count) < 0.9,
        baseline_logprob=np.log(generator.uniform(0.1, 0.9, count)),
        candidate_logprob=np.log(generator.uniform(0.1, 0.9, count)),
        tail=generator.uniform(0, 0.01, count),
    )


NAMES = np.repeat([f"text-{number}" for number in range(TEXTS)], LENGTH)


def test_the_figures_are_those_of_their_definitions() -> None:
    tokens = tokens_of(np.random.default_rng(1).exponential(0.01, (TEXTS, LENGTH)))
    found = summarize(tokens, NAMES)
    assert found is not None
    ours, theirs = tokens.baseline_logprob, tokens.candidate_logprob
    change = np.exp(theirs) - np.exp(ours)
    assert (found.tokens, found.excluded, found.clusters) == (TEXTS * LENGTH, 0, TEXTS)
    assert found.kld_mean.value == pytest.approx(tokens.kld.mean())
    wanted = [np.quantile(tokens.kld, share) for share in (1.0, 0.999, 0.99, 0.95, 0.9, 0.5)]
    got = [found.kld_max, found.kld_999, found.kld_99, found.kld_95, found.kld_90, found.kld_median]
    assert got == pytest.approx(wanted)
    assert found.same_top.value == pytest.approx(tokens.same_top.mean())
    assert found.p_change_rms.value == pytest.approx(math.sqrt((change**2).mean()))
    assert found.p_change_mean.value == pytest.approx(change.mean())
    assert dict(found.p_change_percentiles)[5.0] == pytest.approx(np.quantile(change, 0.05))
    ours_ppl, theirs_ppl = math.exp(-ours.mean()), math.exp(-theirs.mean())
    assert (found.baseline_ppl, found.candidate_ppl) == pytest.approx((ours_ppl, theirs_ppl))
    assert found.ppl_ratio.value == pytest.approx(theirs_ppl / ours_ppl)
    assert (found.tail_mean, found.tail_max) == pytest.approx((tokens.tail.mean(), tokens.tail.max()))


def test_errors_count_texts_and_not_tokens() -> None:
    # Every text has a divergence of its own, and its tokens add nothing to what is known of other texts.
    levels = np.random.default_rng(2).exponential(0.01, (TEXTS, 1))
    found = summarize(tokens_of(np.tile(levels, (1, LENGTH))), NAMES)
    assert found is not None
    assert found.kld_mean.se == pytest.approx(levels.std(ddof=1) / math.sqrt(TEXTS))


def test_independent_tokens_have_the_errors_of_independent_tokens() -> None:
    kld = np.random.default_rng(3).exponential(0.01, (400, LENGTH))
    tokens = tokens_of(kld)
    found = summarize(tokens, np.repeat(np.arange(400), LENGTH))
    assert found is not None
    assert found.kld_mean.se == pytest.approx(kld.std() / math.sqrt(kld.size), rel=0.15)
    change_square = (np.exp(tokens.candidate_logprob) - np.exp(tokens.baseline_logprob)) ** 2
    rms_se = change_square.std() / math.sqrt(kld.size) / (2 * math.sqrt(change_square.mean()))
    assert found.p_change_rms.se == pytest.approx(rms_se, rel=0.15)
    log_ratio_se = (tokens.baseline_logprob - tokens.candidate_logprob).std() / math.sqrt(kld.size)
    assert found.ppl_ratio.se == pytest.approx(found.ppl_ratio.value * log_ratio_se, rel=0.15)


def test_one_text_has_no_error() -> None:
    found = summarize(tokens_of(np.full((1, LENGTH), 0.01)), ["text"] * LENGTH)
    assert found is not None
    assert found.kld_mean.se is None
    assert found.ppl_ratio.se is None


def test_tokens_without_numbers_are_counted_and_enter_nothing() -> None:
    kld = np.full((TEXTS, LENGTH), 0.01)
    kld[0, :3] = [np.nan, np.inf, -np.inf]
    found = summarize(tokens_of(kld), NAMES)
    assert found is not None
    assert (found.tokens, found.excluded) == (TEXTS * LENGTH - 3, 3)
    assert found.kld_mean.value == pytest.approx(0.01)
    assert summarize(tokens_of(np.full((TEXTS, LENGTH), np.nan)), NAMES) is None


def test_positions_are_grouped_from_the_first_token_to_the_last() -> None:
    kld = np.tile(np.arange(LENGTH) / 1000, (TEXTS, 1))
    ranges = list(by_position(tokens_of(kld), NAMES))
    assert [(one.first, one.last, one.tokens) for one in ranges] == [
        (1, 16, 16 * TEXTS), (17, 64, 48 * TEXTS), (65, 100, 36 * TEXTS),
    ]  # fmt: skip
    assert [one.kld_mean.value for one in ranges] == pytest.approx([0.0075, 0.0395, 0.0815])
    assert [one.clusters for one in ranges] == [TEXTS] * 3


@pytest.mark.parametrize(("slope", "word"), [(1e-4, "grows"), (-1e-4, "shrinks"), (0.0, "is not shown to change")])
def test_growth_is_told_within_texts_however_much_they_differ(slope: float, word: str) -> None:
    generator = np.random.default_rng(4)
    levels = generator.exponential(0.5, (TEXTS, 1))
    kld = levels + slope * np.arange(LENGTH) + generator.normal(0, 1e-4, (TEXTS, LENGTH))
    found = growth(tokens_of(kld), NAMES, NAMES, confidence=0.95)
    assert found is not None
    assert found.word == word
    assert found.kld == pytest.approx(slope * LENGTH / 2, abs=1e-4)


def test_growth_of_one_text_has_no_word() -> None:
    found = growth(tokens_of(np.ones((1, LENGTH))), ["a"] * LENGTH, ["a"] * LENGTH, confidence=0.95)
    assert found is not None
    assert found.word is None
    assert growth(tokens_of(np.ones((3, 1))), ["a", "b", "c"], ["a", "b", "c"], confidence=0.95) is None


def test_growth_that_is_no_change_in_noise_is_rarely_called_growth() -> None:
    false = 0
    for seed in range(200):
        kld = np.random.default_rng(seed).exponential(0.01, (6, 40))
        names = np.repeat(np.arange(6), 40)
        found = growth(tokens_of(kld), names, names, confidence=0.95)
        assert found is not None
        false += found.word != "is not shown to change"
    assert false <= 20
