"""Samples by haystack: the samples of one haystack share a context and its prefill."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from kveval.tasks.sample import Sample


@dataclass(frozen=True, slots=True)
class HaystackSamples:
    """Samples of one haystack, in the order they are asked. The first one fills the prefix cache."""

    haystack_id: str
    samples: tuple[Sample, ...]

    @property
    def shared_tokens(self) -> int:
        return len(self.samples[0].prompt.shared)


def group_by_haystack(samples: Iterable[Sample]) -> list[HaystackSamples]:
    """Groups samples in their own order, short contexts first: early records cost little."""
    ordered = sorted(samples, key=lambda sample: sample.context_length)
    first_seen: dict[str, int] = {}
    for position, sample in enumerate(ordered):
        first_seen.setdefault(sample.haystack_id, position)
    ordered.sort(key=lambda sample: first_seen[sample.haystack_id])
    return [HaystackSamples(key, tuple(members)) for key, members in groupby(ordered, key=lambda s: s.haystack_id)]


def tokens_to_compute(samples: Iterable[Sample]) -> dict[str, int]:
    """Returns the tokens each sample costs, by sample_id. The shared part counts once, with the first of a haystack."""
    tokens: dict[str, int] = {}
    for haystack in group_by_haystack(samples):
        for position, sample in enumerate(haystack.samples):
            own = len(sample.prompt.tail) + sample.max_output_tokens
            tokens[sample.sample_id] = own + (haystack.shared_tokens if position == 0 else 0)
    return tokens
