"""Sums up the divergence of many tokens, in the terms of llama.cpp's ``--kl-divergence``.

llama.cpp takes tokens as independent. Those of one context are not, so all errors here are clustered by context.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kveval.judge.divergence.estimate import Estimate, mean, percentiles
from kveval.judge.divergence.tokens import TokenDivergence

KLD_PERCENTS = (100.0, 99.9, 99.0, 95.0, 90.0, 50.0)
CHANGE_PERCENTS = (100.0, 99.9, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0, 0.1, 0.0)


@dataclass(frozen=True, slots=True)
class NotFinite:
    """Counts the tokens whose divergence is not finite. Each of them takes the mean away.

    Attributes:
        infinite: the variant gives probability 0 to a token that the baseline gives more.
        variant: the variant's probabilities are not numbers.
        baseline: the baseline's are not.
    """

    infinite: int
    variant: int
    baseline: int

    @property
    def total(self) -> int:
        return self.infinite + self.variant + self.baseline


@dataclass(frozen=True, slots=True)
class DivergenceSummary:
    """Sums up the tokens of some texts.

    Attributes:
        clusters: contexts of these texts.
        kld_mean, kld_max, ...: KL(baseline || variant) in nats, each a lower bound. A percentile that is not finite is
            None.
        same_top: share of tokens where both have the same most likely token.
        p_change_rms, p_change_mean: of the probability of the text's token, variant - baseline, in [-1, 1].
        p_change_percentiles: (percentile, change), the largest first.
        ppl_ratio: the variant's perplexity over the baseline's, with its paired error.
        tail_mean, tail_max: the baseline's probability of the tokens that were not kept. None if it is not a number.
    """

    clusters: int
    tokens: int
    not_finite: NotFinite
    kld_mean: Estimate
    kld_max: float | None
    kld_999: float | None
    kld_99: float | None
    kld_95: float | None
    kld_90: float | None
    kld_median: float | None
    same_top: Estimate
    p_change_rms: Estimate
    p_change_mean: Estimate
    p_change_percentiles: tuple[tuple[float, float | None], ...]
    baseline_ppl: Estimate
    variant_ppl: Estimate
    ppl_ratio: Estimate
    tail_mean: float | None
    tail_max: float | None


def summarize(tokens: TokenDivergence, clusters: ArrayLike) -> DivergenceSummary | None:
    """Returns the sum of `tokens` [n], whose clusters are named in `clusters` [n]. None without a token."""
    names = np.asarray(clusters)
    if not len(tokens.kld):
        return None
    change = np.exp(tokens.variant_logprob) - np.exp(tokens.baseline_logprob)
    largest, p999, p99, p95, p90, median = percentiles(tokens.kld, KLD_PERCENTS, worst="largest")
    tail_mean, tail_max = float(tokens.tail.mean()), float(tokens.tail.max())
    is_undefined, is_of_baseline = np.isnan(tokens.kld), tokens.is_undefined_baseline
    with np.errstate(invalid="ignore"):
        log_ratio = tokens.baseline_logprob - tokens.variant_logprob
    return DivergenceSummary(
        clusters=len(np.unique(names)),
        tokens=len(tokens.kld),
        not_finite=NotFinite(
            infinite=int(np.isposinf(tokens.kld).sum()),
            variant=int((is_undefined & ~is_of_baseline).sum()),
            baseline=int((is_undefined & is_of_baseline).sum()),
        ),
        kld_mean=mean(tokens.kld, names),
        kld_max=largest,
        kld_999=p999,
        kld_99=p99,
        kld_95=p95,
        kld_90=p90,
        kld_median=median,
        same_top=mean(tokens.same_top, names),
        p_change_rms=mean(change**2, names).sqrt(),
        p_change_mean=mean(change, names),
        p_change_percentiles=tuple(
            zip(CHANGE_PERCENTS, percentiles(change, CHANGE_PERCENTS, worst="smallest"), strict=True)
        ),
        baseline_ppl=mean(-tokens.baseline_logprob, names).exp(),
        variant_ppl=mean(-tokens.variant_logprob, names).exp(),
        ppl_ratio=mean(log_ratio, names).exp(),
        tail_mean=None if np.isnan(tail_mean) else tail_mean,
        tail_max=None if np.isnan(tail_max) else tail_max,
    )
