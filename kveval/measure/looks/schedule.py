"""When a candidate is judged while it is asked, and the share of the error rate that each look may use.

Each look tests at its own share of the error rate, and the shares add up to less than 1. So all looks together make
an error no more often than one test at the whole rate would (Bonferroni), whatever the statistic, however the looks
are correlated, and for whatever reason a variant was stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kveval.measure.haystacks import HaystackSamples, group_by_haystack, spread_over_time
from kveval.run.looks import PlannedLook
from kveval.tasks.sample import Sample

# Fewer haystacks of a context length cannot decide anything at the level of a look.
_LEAST_HAYSTACKS = 6
_MOST_LOOKS = 5
# Kept for looks at haystacks that are added later. Each growth takes half of what is left.
_KEPT_FOR_GROWTH = 0.1
# The share spent by a share t of the haystacks is t^2. With looks at halves, the last one keeps three quarters.
_SPENDING_POWER = 2


@dataclass(frozen=True, slots=True)
class LookPlan:
    """The looks of a run.

    Attributes:
        looks: in order. They are the same for every variant.
        first_look: the first look that counts a sample, by sample_id.
    """

    looks: tuple[PlannedLook, ...]
    first_look: Mapping[str, int]


def plan_looks(stages: Sequence[Iterable[Sample]]) -> LookPlan:
    """Plans the looks at the samples of a run.

    The last look is at all haystacks, the one before at half of them, and so on, as long as every context length has
    enough haystacks. Every cell has about the same share of its haystacks at each look, and haystacks stay whole.

    Args:
        stages: the samples of the first plan, then those of each growth.
    """
    looks: list[PlannedLook] = []
    first_look: dict[str, int] = {}
    left = 1.0
    for number, samples in enumerate(stages):
        haystacks = group_by_haystack(samples)
        if not haystacks:
            continue
        spent = left - _KEPT_FOR_GROWTH if number == 0 else left / 2
        left -= spent
        shares = _shares(haystacks)
        before = len(looks)
        for place, (share, previous) in enumerate(zip(shares, (0.0, *shares), strict=False), start=before + 1):
            used = spent * (share**_SPENDING_POWER - previous**_SPENDING_POWER)
            looks.append(PlannedLook(number=place, error_share=round(used, 9)))
        for haystack, place in _places(haystacks, shares):
            first_look |= dict.fromkeys((sample.sample_id for sample in haystack.samples), before + place)
    return LookPlan(tuple(looks), first_look)


def _shares(haystacks: Sequence[HaystackSamples]) -> list[float]:
    """Returns the share of the haystacks at each look, growing, the last one 1."""
    fewest = min(Counter(haystack.cell[0] for haystack in haystacks).values())
    shares = [1.0]
    while len(shares) < _MOST_LOOKS and fewest * shares[0] / 2 >= _LEAST_HAYSTACKS:
        shares.insert(0, shares[0] / 2)
    return shares


def _places(haystacks: Sequence[HaystackSamples], shares: Sequence[float]) -> Iterable[tuple[HaystackSamples, int]]:
    """Yields every haystack with the look that counts it first, counted from 1."""
    asked: Counter[int] = Counter()
    of_length = Counter(haystack.cell[0] for haystack in haystacks)
    for haystack in spread_over_time(haystacks):
        length = haystack.cell[0]
        asked[length] += 1
        so_far = asked[length] / of_length[length]
        yield haystack, next(place for place, share in enumerate(shares, start=1) if so_far <= share + 1e-9)
