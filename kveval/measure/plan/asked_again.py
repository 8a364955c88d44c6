"""Chooses the samples that are asked twice: by the A/A run, and without the prefix cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import chain, zip_longest

from kveval.measure.haystacks import group_by_haystack
from kveval.run.manifest import Role
from kveval.tasks.sample import Sample


def aa_sample_ids(samples: Iterable[Sample], share: float) -> frozenset[str]:
    """Chooses what the A/A run asks: whole haystacks, so that it shares prefill as the baseline does."""
    haystacks = sorted(group_by_haystack(samples), key=lambda haystack: haystack.haystack_id)
    asked = haystacks[: max(1, round(share * len(haystacks)))] if share > 0 else []
    return frozenset(sample.sample_id for haystack in asked for sample in haystack.samples)


def cold_samples(samples: Iterable[Sample], wanted: int | float, seed: int) -> list[Sample]:
    """Chooses `wanted` samples, or that share of all samples if `wanted` is below 1.

    The first sample of a haystack is never chosen: it is answered without the cache anyway. Cells take turns, short
    contexts first, because every chosen sample costs a whole prefill.
    """
    haystacks = group_by_haystack(samples)
    cells: dict[tuple[int, str], list[Sample]] = {}
    for haystack in haystacks:
        for sample in haystack.samples[1:]:
            cells.setdefault((sample.context_length, sample.task), []).append(sample)

    def draw(sample: Sample) -> str:
        return hashlib.sha256(f"{seed}/cold/{sample.sample_id}".encode()).hexdigest()

    drawn = [sorted(cells[cell], key=draw) for cell in sorted(cells)]
    in_turn = [sample for sample in chain.from_iterable(zip_longest(*drawn)) if sample is not None]
    asked = sum(len(haystack.samples) for haystack in haystacks)
    return in_turn[: wanted if isinstance(wanted, int) else max(1, round(wanted * asked))]


def cold_tokens(sample: Sample) -> int:
    """Returns the most tokens a sample costs without the prefix cache: its whole prompt and its output."""
    return len(sample.prompt) + sample.max_output_tokens


def is_cold_checked(role: Role) -> bool:
    """Whether a variant of this role is asked without the prefix cache. Controls and A/A runs are not."""
    return role in ("baseline", "candidate")
