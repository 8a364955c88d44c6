"""Chooses the samples that are asked twice: by the A/A run, and without the prefix cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, zip_longest

from kveval.measure.haystacks import group_by_haystack
from kveval.run.manifest import Role
from kveval.tasks.sample import Sample

# Samples of the first plan, then those that each growth added. What was chosen of some stages stays chosen when others
# are added.
_Stages = Sequence[Sequence[Sample]]


def aa_sample_ids(stages: _Stages, share: float) -> frozenset[str]:
    """Chooses what the A/A run asks: whole haystacks, so that it shares prefill as the baseline does."""
    if share <= 0:
        return frozenset()
    asked: set[str] = set()
    for samples in _growing(stages):
        names = sorted({sample.haystack_id for sample in samples})
        others = [name for name in names if name not in asked]
        asked |= set(others[: max(1, round(share * len(names))) - len(asked)])
    return frozenset(sample.sample_id for stage in stages for sample in stage if sample.haystack_id in asked)


def cold_samples(
    stages: _Stages, wanted: int | float, seed: int, first_look: Mapping[str, int] | None = None
) -> list[Sample]:
    """Chooses `wanted` samples, or that share of all samples if `wanted` is below 1.

    Args:
        first_look: the first look that counts each sample. A candidate that is decided early is asked no others.
    """
    chosen: dict[str, Sample] = {}
    for samples in _growing(stages):
        others = [one for one in _cold_in_turn(samples, seed, first_look or {}) if one.sample_id not in chosen]
        count = wanted if isinstance(wanted, int) else max(1, round(wanted * len(samples)))
        chosen |= {sample.sample_id: sample for sample in others[: max(count - len(chosen), 0)]}
    return list(chosen.values())


def _growing(stages: _Stages) -> Iterator[list[Sample]]:
    """Yields all samples up to each stage."""
    return accumulate((list(stage) for stage in stages), lambda before, added: [*before, *added])


def _cold_in_turn(samples: Iterable[Sample], seed: int, first_look: Mapping[str, int]) -> list[Sample]:
    """Returns what may be asked without the cache, in the order in which it is chosen.

    The first sample of a haystack is never chosen: it is answered without the cache anyway. Cells take turns, short
    contexts first, because every chosen sample costs a whole prefill. Those that the first look counts come first: a
    candidate that is decided early is asked no others.
    """
    cells: dict[tuple[int, str], list[Sample]] = {}
    for haystack in group_by_haystack(samples):
        for sample in haystack.samples[1:]:
            cells.setdefault((sample.context_length, sample.task), []).append(sample)

    def draw(sample: Sample) -> tuple[int, str]:
        drawn = hashlib.sha256(f"{seed}/cold/{sample.sample_id}".encode()).hexdigest()
        return first_look.get(sample.sample_id, 1), drawn

    in_turn = zip_longest(*(sorted(cells[cell], key=draw) for cell in sorted(cells)))
    return [sample for sample in chain.from_iterable(in_turn) if sample is not None]


def cold_tokens(sample: Sample) -> int:
    """Returns the most tokens a sample costs without the prefix cache: its whole prompt and its output."""
    return len(sample.prompt) + sample.max_output_tokens


def is_cold_checked(role: Role) -> bool:
    """Whether a variant of this role is asked without the prefix cache. Controls and A/A runs are not."""
    return role in ("baseline", "candidate")
