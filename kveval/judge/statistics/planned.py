"""What a planned number of samples can show, before any is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import sparse_bounds
from kveval.judge.statistics.power import POWER

_MOST_CLUSTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Spread:
    """What is expected of paired differences.

    Attributes:
        variance: of one sample's difference, times the design effect of its haystack.
        differing: share of samples whose scores differ in jumps. None for scores that move on every sample.
    """

    variance: float
    differing: float | None


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned row: `clusters` haystacks of `per_cluster` samples."""

    clusters: int
    per_cluster: float
    spread: Spread
    confidence: float

    @property
    def samples(self) -> float:
        return self.clusters * self.per_cluster

    def can_pass(self, margin: float) -> bool:
        """Tells whether any outcome of these samples excludes a loss of the margin.

        The best outcome of scores that jump is none that differs, or just as many as show how they cluster, half of
        them gains. Scores that move on every sample can lie arbitrarily close together.
        """
        fewest = fewest_clusters(self.confidence)
        if self.clusters < fewest:
            return False
        if self.spread.differing is None:
            return True
        equal, _, _ = sparse_bounds(0.0, 0.0, self.clusters, confidence=self.confidence)
        balanced = -self._t((1 - self.confidence) / 2) * math.sqrt(fewest) / self.samples
        return max(equal, balanced) > -margin

    def chance_to_pass(self, margin: float) -> float:
        """Returns the chance to exclude a loss of the margin if nothing is lost."""
        if not self.can_pass(margin):
            return 0.0
        reach = self._reach((1 - self.confidence) / 2)
        return float(special.ndtr((margin - reach) / self._se())) if self._se() > 0 else float(margin > reach)

    def detectable_loss(self, margin: float, *, rows: int) -> float | None:
        """Returns the smallest loss that is shown to exceed the margin with probability `POWER`.

        It is shown in one of `rows` rows that are corrected together, at worst. None with fewer than two haystacks.
        """
        if self.clusters < 2:
            return None
        tail = (1 - self.confidence) / 2 / rows
        return margin + (self._t(tail) + float(special.ndtri(POWER))) * self._se()

    def samples_to_pass(self, margin: float) -> int | None:
        """Returns how many samples exclude a loss of the margin with probability `POWER` if nothing is lost.

        Haystacks keep their size. None if no practical number does.
        """

        def does(clusters: int) -> bool:
            return Planned(clusters, self.per_cluster, self.spread, self.confidence).chance_to_pass(margin) >= POWER

        if not does(_MOST_CLUSTERS):
            return None
        low, high = 1, _MOST_CLUSTERS
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if does(middle) else (middle + 1, high)
        return math.ceil(low * self.per_cluster)

    def _se(self) -> float:
        return math.sqrt(self.spread.variance / self.samples)

    def _t(self, tail: float) -> float:
        return float(-special.stdtrit(max(1, self.clusters - 1), tail))

    def _reach(self, tail: float) -> float:
        """Returns how far the interval is expected to reach below the mean."""
        by_t = self._t(tail) * self._se()
        share = self.spread.differing
        if share is None:
            return by_t
        differing = self.clusters * (1 - (1 - share) ** self.per_cluster)
        if differing >= fewest_clusters(self.confidence):
            return by_t
        assumed = 1 + (self.per_cluster - 1) / (1 + differing)
        low, _, _ = sparse_bounds(0.0, share, self.samples / assumed, confidence=self.confidence)
        return max(by_t, -low)
