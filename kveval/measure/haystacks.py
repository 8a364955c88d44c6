"""Samples by haystack: the samples of one haystack share a context and its prefill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kveval.tasks.sample import Sample

_GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class HaystackSamples:
    """Samples of one haystack, in the order they are asked. The first one fills the prefix cache."""

    haystack_id: str
    samples: tuple[Sample, ...]

    @property
    def cell(self) -> tuple[int, str]:
        return self.samples[0].context_length, self.samples[0].task

    @property
    def shared_tokens(self) -> int:
        return len(self.samples[0].prompt.shared)


def group_by_haystack(samples: Iterable[Sample]) -> list[HaystackSamples]:
    """Groups samples in their own order, short contexts first. `spread_over_time` gives the order of asking."""
    ordered = sorted(samples, key=lambda sample: sample.context_length)
    first_seen: dict[str, int] = {}
    for position, sample in enumerate(ordered):
        first_seen.setdefault(sample.haystack_id, position)
    ordered.sort(key=lambda sample: first_seen[sample.haystack_id])
    return [HaystackSamples(key, tuple(members)) for key, members in groupby(ordered, key=lambda s: s.haystack_id)]


def spread_over_time(haystacks: Sequence[HaystackSamples]) -> list[HaystackSamples]:
    """Returns the haystacks in the order they are asked: at any moment, every cell is answered to about the same share.

    What a server does from some moment on then hits every task and every context length alike, and a run that is cut
    short is a smaller run of the same cells. Haystacks stay whole, so the prefix cache serves their questions. The
    order depends on nothing but the haystacks.
    """
    cells: dict[tuple[int, str], list[HaystackSamples]] = {}
    for haystack in haystacks:
        cells.setdefault(haystack.cell, []).append(haystack)
    placed: list[tuple[float, int, HaystackSamples]] = []
    for number, cell in enumerate(sorted(cells)):
        # Multiples of the golden ratio lie far apart: cells do not come in the order of their lengths.
        offset = number * _GOLDEN_RATIO % 1
        members = cells[cell]
        placed += [((place + offset) / len(members), number, one) for place, one in enumerate(members)]
    return [haystack for _, _, haystack in sorted(placed, key=lambda one: one[:2])]


def tokens_to_compute(samples: Iterable[Sample]) -> dict[str, int]:
    """Returns the tokens each sample costs, by sample_id. The shared part counts once, with the first of a haystack."""
    tokens: dict[str, int] = {}
    for haystack in group_by_haystack(samples):
        for position, sample in enumerate(haystack.samples):
            own = len(sample.prompt.tail) + sample.max_output_tokens
            tokens[sample.sample_id] = own + (haystack.shared_tokens if position == 0 else 0)
    return tokens
