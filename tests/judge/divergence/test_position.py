"""Whether divergence accumulates, told within texts."""

from __future__ import annotations

import numpy as np
import pytest
from support.divergent_tokens import LENGTH, NAMES, TEXTS, tokens_of

from kveval.judge.divergence.position import Growth, by_position, growth


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


def test_a_token_that_is_not_finite_takes_away_its_range_and_the_growth() -> None:
    kld = np.full((TEXTS, LENGTH), 0.01)
    kld[0, 20] = np.inf
    ranges = list(by_position(tokens_of(kld), NAMES))
    assert [one.kld_mean.reason for one in ranges] == [None, "not finite: 1 token", None]
    found = growth(tokens_of(kld), NAMES, NAMES, confidence=0.95)
    assert found == Growth(TEXTS, None, None, None, "not finite: 1 token")
    assert found.word is None
