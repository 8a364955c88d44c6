"""Tells whether the divergence accumulates along a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from kveval.judge.divergence.estimate import Estimate, mean
from kveval.judge.divergence.tokens import TokenDivergence


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
    first, last, end = 1, 16, int(tokens.position.max()) + 1 if len(tokens.position) else 0
    while first <= end:
        inside = (tokens.position + 1 >= first) & (tokens.position + 1 <= last)
        if inside.any():
            part, own = tokens.where(inside), names[inside]
            means = mean(part.kld, own), mean(part.same_top, own)
            yield PositionRange(first, min(last, end), len(own), len(np.unique(own)), *means)
        first, last = last + 1, last * 4


@dataclass(frozen=True, slots=True)
class Growth:
    """Compares the second half of each text with its first half.

    Attributes:
        clusters: contexts of these texts.
        kld: the mean divergence of the second halves minus that of the first, in nats.
        low, high: its interval.
        reason: why a value is None.
    """

    clusters: int
    kld: float | None
    low: float | None
    high: float | None
    reason: str | None = None

    @property
    def word(self) -> str | None:
        """Says whether the divergence grows along a text. None if that cannot be told."""
        if self.low is None or self.high is None:
            return None
        return "grows" if self.low > 0 else "shrinks" if self.high < 0 else "is not shown to change"


def growth(tokens: TokenDivergence, texts: ArrayLike, clusters: ArrayLike, *, confidence: float) -> Growth | None:
    """Tells whether divergence accumulates, from the two halves of each text. None if no text has two tokens.

    Halves are paired within a text, so texts that differ in level do not hide what changes along them.
    """
    text_names, cluster_names = np.asarray(texts), np.asarray(clusters)
    not_finite = mean(tokens.kld, cluster_names)
    differences, names = [], []
    for text in np.unique(text_names):
        inside = text_names == text
        position, kld = tokens.position[inside], tokens.kld[inside]
        later = position >= (position.max() + 1) / 2
        if later.any() and not later.all():
            names.append(cluster_names[inside][0])
            if not_finite.value is not None:
                differences.append(float(kld[later].mean() - kld[~later].mean()))
    if not names:
        return None
    count = len(set(names))
    if not_finite.value is None:
        return Growth(count, None, None, None, not_finite.reason)
    found = mean(np.array(differences), np.array(names))
    if found.value is None or found.se is None:
        return Growth(count, found.value, None, None, "one context")
    half = float(special.stdtrit(count - 1, 0.5 + confidence / 2)) * found.se
    return Growth(count, found.value, found.value - half, found.value + half)
