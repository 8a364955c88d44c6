"""llama.cpp's figures, from their definitions, with errors that know that the tokens of a text go together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.divergent_tokens import LENGTH, NAMES, TEXTS, tokens_of

from kveval.judge.divergence.estimate import Estimate
from kveval.judge.divergence.summary import NotFinite, summarize


def test_the_figures_are_those_of_their_definitions() -> None:
    tokens = tokens_of(np.random.default_rng(1).exponential(0.01, (TEXTS, LENGTH)))
    found = summarize(tokens, NAMES)
    assert found is not None
    ours, theirs = tokens.baseline_logprob, tokens.variant_logprob
    change = np.exp(theirs) - np.exp(ours)
    assert (found.tokens, found.not_finite.total, found.clusters) == (TEXTS * LENGTH, 0, TEXTS)
    assert found.kld_mean.value == pytest.approx(tokens.kld.mean())
    wanted = [np.quantile(tokens.kld, share) for share in (1.0, 0.999, 0.99, 0.95, 0.9, 0.5)]
    got = [found.kld_max, found.kld_999, found.kld_99, found.kld_95, found.kld_90, found.kld_median]
    assert got == pytest.approx(wanted)
    assert found.same_top.value == pytest.approx(tokens.same_top.mean())
    assert found.p_change_rms.value == pytest.approx(math.sqrt((change**2).mean()))
    assert found.p_change_mean.value == pytest.approx(change.mean())
    assert dict(found.p_change_percentiles)[5.0] == pytest.approx(np.quantile(change, 0.05))
    ours_ppl, theirs_ppl = math.exp(-ours.mean()), math.exp(-theirs.mean())
    assert (found.baseline_ppl.value, found.variant_ppl.value) == pytest.approx((ours_ppl, theirs_ppl))
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
    change_square = (np.exp(tokens.variant_logprob) - np.exp(tokens.baseline_logprob)) ** 2
    rms_se = change_square.std() / math.sqrt(kld.size) / (2 * math.sqrt(change_square.mean()))
    assert found.p_change_rms.se == pytest.approx(rms_se, rel=0.15)
    log_ratio_se = (tokens.baseline_logprob - tokens.variant_logprob).std() / math.sqrt(kld.size)
    assert found.ppl_ratio.se == pytest.approx(found.ppl_ratio.value * log_ratio_se, rel=0.15)


def test_one_text_has_no_error() -> None:
    found = summarize(tokens_of(np.full((1, LENGTH), 0.01)), ["text"] * LENGTH)
    assert found is not None
    assert found.kld_mean.se is None
    assert found.ppl_ratio.se is None


def test_tokens_that_are_not_finite_are_counted_and_take_the_mean_away() -> None:
    kld = np.full((TEXTS, LENGTH), 0.01)
    kld[0, :3] = [np.nan, np.inf, np.inf]
    found = summarize(tokens_of(kld), NAMES)
    assert found is not None
    assert found.tokens == TEXTS * LENGTH
    assert found.not_finite == NotFinite(infinite=2, variant=1, baseline=0)
    assert found.kld_mean == Estimate(None, None, "not finite: 3 tokens")
    assert (found.kld_max, found.kld_999, found.kld_99) == (None, None, pytest.approx(0.01))
    assert found.ppl_ratio.value is not None


def test_a_token_of_probability_0_takes_the_perplexity_away_and_is_a_change() -> None:
    tokens = tokens_of(np.full((TEXTS, LENGTH), 0.01))
    tokens.variant_logprob[5] = -np.inf
    found = summarize(tokens, NAMES)
    assert found is not None
    assert found.ppl_ratio == found.variant_ppl == Estimate(None, None, "not finite: 1 token")
    assert found.baseline_ppl.value is not None
    assert found.p_change_mean.value is not None
    assert dict(found.p_change_percentiles)[0.0] <= -math.exp(tokens.baseline_logprob[5])  # type: ignore[operator]


def test_a_change_that_is_not_a_number_ranks_as_the_greatest_loss() -> None:
    tokens = tokens_of(np.full((TEXTS, LENGTH), 0.01))
    tokens.variant_logprob[5] = np.nan
    found = summarize(tokens, NAMES)
    assert found is not None
    assert found.p_change_rms.value is None
    assert found.p_change_mean.value is None
    changes = dict(found.p_change_percentiles)
    assert changes[0.0] is None
    assert changes[100.0] is not None


def test_no_token_has_no_summary() -> None:
    nothing = tokens_of(np.full((1, 1), 0.0)).where(np.array([False]))
    assert summarize(nothing, []) is None
