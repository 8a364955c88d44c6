"""Sums up the divergence of many tokens, in the terms of llama.cpp's ``--kl-divergence``.

Tokens of one text are not independent, so all errors are clustered by text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from kveval.judge.divergence.tokens import TokenDivergence
from kveval.judge.statistics.clusters import cluster_codes, clustered_se

CHANGE_PERCENTILES = (100.0, 99.9, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0, 0.1, 0.0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its clustered standard error. `se` is None with fewer than two clusters."""

    value: float
    se: float | None


@dataclass(frozen=True, slots=True)
class DivergenceSummary:
    """Sums up the tokens of some texts.

    Attributes:
        tokens: those that have numbers; `excluded`: those where a probability is no number, or 0.
        clusters: texts with contexts of their own.
        kld_mean, kld_max, ...: KL(baseline || candidate) in nats, each a lower bound.
        same_top: share of tokens where both have the same most likely token.
        p_change_rms, p_change_mean: of the probability of the text's token, candidate - baseline, in [-1, 1].
        p_change_percentiles: (percentile, change), the largest first.
        ppl_ratio: the candidate's perplexity over the baseline's, with its paired error.
        tail_mean, tail_max: the baseline's probability of the tokens that were not kept.
    """

    clusters: int
    tokens: int
    excluded: int
    kld_mean: Estimate
    kld_max: float
    kld_999: float
    kld_99: float
    kld_95: float
    kld_90: float
    kld_median: float
    same_top: Estimate
    p_change_rms: Estimate
    p_change_mean: Estimate
    p_change_percentiles: tuple[tuple[float, float], ...]
    baseline_ppl: float
    candidate_ppl: float
    ppl_ratio: Estimate
    tail_mean: float
    tail_max: float


def summarize(tokens: TokenDivergence, clusters: ArrayLike) -> DivergenceSummary | None:
    """Returns the sum of `tokens` [n], whose clusters are named in `clusters` [n]. None if no token has numbers."""
    names = np.asarray(clusters)
    kept, names = tokens.where(tokens.is_finite), names[tokens.is_finite]
    if not len(kept.kld):
        return None
    change = np.exp(kept.candidate_logprob) - np.exp(kept.baseline_logprob)
    mean_square = _mean(change**2, names)
    rms = math.sqrt(mean_square.value)
    log_ratio = _mean(kept.baseline_logprob - kept.candidate_logprob, names)
    ratio = math.exp(log_ratio.value)
    largest, p999, p99, p95, p90, median = np.percentile(kept.kld, (100.0, 99.9, 99.0, 95.0, 90.0, 50.0)).tolist()
    return DivergenceSummary(
        clusters=len(np.unique(names)),
        tokens=len(kept.kld),
        excluded=len(tokens.kld) - len(kept.kld),
        kld_mean=_mean(kept.kld, names),
        kld_max=largest,
        kld_999=p999,
        kld_99=p99,
        kld_95=p95,
        kld_90=p90,
        kld_median=median,
        same_top=_mean(kept.same_top, names),
        # The delta method, as for the ratio below.
        p_change_rms=Estimate(rms, _times(mean_square.se, 1 / (2 * rms)) if rms else mean_square.se),
        p_change_mean=_mean(change, names),
        p_change_percentiles=tuple(
            (percentile, float(np.percentile(change, percentile))) for percentile in CHANGE_PERCENTILES
        ),
        baseline_ppl=math.exp(-float(kept.baseline_logprob.mean())),
        candidate_ppl=math.exp(-float(kept.candidate_logprob.mean())),
        ppl_ratio=Estimate(ratio, _times(log_ratio.se, ratio)),
        tail_mean=float(kept.tail.mean()),
        tail_max=float(kept.tail.max()),
    )


@dataclass(frozen=True, slots=True)
class PositionRange:
    """The tokens at positions `first` to `last` of their texts, counted from 1."""

    first: int
    last: int
    tokens: int
    clusters: int
    kld_mean: Estimate
    same_top: Estimate


def by_position(tokens: TokenDivergence, clusters: ArrayLike) -> Iterator[PositionRange]:
    """Yields ranges that grow fourfold: 1 to 16, 17 to 64, 65 to 256, ... Ranges without a token are left out."""
    names = np.asarray(clusters)
    kept, names = tokens.where(tokens.is_finite), names[tokens.is_finite]
    first, last = 1, 16
    while len(kept.position) and first <= kept.position.max() + 1:
        inside = (kept.position + 1 >= first) & (kept.position + 1 <= last)
        if inside.any():
            part, own = kept.where(inside), names[inside]
            shown_last = min(last, int(kept.position.max()) + 1)
            means = _mean(part.kld, own), _mean(part.same_top, own)
            yield PositionRange(first, shown_last, len(own), len(np.unique(own)), *means)
        first, last = last + 1, last * 4


@dataclass(frozen=True, slots=True)
class Growth:
    """Compares the second half of each text with its first half.

    Attributes:
        clusters: texts with contexts of their own.
        kld: the mean divergence of the second halves minus that of the first, in nats.
        low, high: its interval. None with fewer than two clusters.
    """

    clusters: int
    kld: float
    low: float | None
    high: float | None

    @property
    def word(self) -> str | None:
        """Says whether the divergence grows along a text. None if that cannot be told."""
        if self.low is None or self.high is None:
            return None
        return "grows" if self.low > 0 else "shrinks" if self.high < 0 else "is not shown to change"


def growth(tokens: TokenDivergence, texts: ArrayLike, clusters: ArrayLike, *, confidence: float) -> Growth | None:
    """Tells whether divergence accumulates, from the two halves of each text. None if no text has tokens in both.

    Halves are paired within a text, so texts that differ in level do not hide what changes along them.
    """
    is_finite = tokens.is_finite
    kept = tokens.where(is_finite)
    text_names, cluster_names = np.asarray(texts)[is_finite], np.asarray(clusters)[is_finite]
    differences, names = [], []
    for text in np.unique(text_names):
        inside = text_names == text
        position, kld = kept.position[inside], kept.kld[inside]
        later = position >= (np.asarray(tokens.position)[np.asarray(texts) == text].max() + 1) / 2
        if later.any() and not later.all():
            differences.append(float(kld[later].mean() - kld[~later].mean()))
            names.append(cluster_names[inside][0])
    if not differences:
        return None
    mean, count = _mean(np.array(differences), np.array(names)), len(set(names))
    if mean.se is None:
        return Growth(count, mean.value, None, None)
    half = float(special.stdtrit(count - 1, 0.5 + confidence / 2)) * mean.se
    return Growth(count, mean.value, mean.value - half, mean.value + half)


def _mean(values: ArrayLike, clusters: ArrayLike) -> Estimate:
    numbers, codes, count = cluster_codes(values, clusters)
    return Estimate(float(numbers.mean()), clustered_se(numbers, codes) if count > 1 else None)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
