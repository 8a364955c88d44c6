"""Tokens whose divergence is given."""

from __future__ import annotations

import numpy as np

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
        variant_logprob=np.log(generator.uniform(0.1, 0.9, count)),
        tail=generator.uniform(0, 0.01, count),
    )


NAMES = np.repeat([f"text-{number}" for number in range(TEXTS)], LENGTH)
