"""Tells what a variant's cache holds: how long contexts may be, for how many at once, and how much memory it frees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from kveval.judge.recommend.serve_command import cpu_cache_gib
from kveval.judge.run_data import RunData
from kveval.run.manifest import VariantRun

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """Says how long a context may be.

    Attributes:
        sequences: requests that run at once and share no prefix.
        context_tokens: prompt tokens of each request, without the longest output that was asked. 0 if none fits.
        bound_by: "quality" if longer contexts were not shown to hold, "cache" if they do not fit.
    """

    sequences: int
    context_tokens: int
    bound_by: Literal["quality", "cache"]


@dataclass(frozen=True, slots=True)
class Memory:
    """Compares a variant's cache with the baseline's. A value is None if the engines do not tell.

    Attributes:
        capacity_ratio: tokens the cache holds, over those of the baseline, each in the memory it was given.
        bytes_per_token, baseline_bytes_per_token: cache memory on one device, with all that it holds.
        baseline_tokens: tokens the baseline's cache holds.
        freed_gib: memory on one device that the variant saves for `baseline_tokens`.
        freed_share: the same as a share of the baseline's cache.
    """

    capacity_ratio: float | None
    bytes_per_token: float | None
    baseline_bytes_per_token: float | None
    baseline_tokens: int | None
    freed_gib: float | None
    freed_share: float | None


def context_limits(run: RunData, variant: VariantRun, held_tokens: int, sequences: int | None) -> list[ContextLimit]:
    """Returns the limits for one sequence, for as many as the run had in flight, and for `sequences` if given.

    Everything passes up to `held_tokens`.
    """
    capacity = variant.facts.kv_capacity_tokens
    if capacity is None:
        return [ContextLimit(1, held_tokens, "quality")]
    output_tokens = int(run.samples["max_output_tokens"].max())
    block = variant.facts.block_size or 1
    limits = []
    for count in sorted({1, most_in_flight(run, variant), sequences or 1}):
        room = max(0, capacity // count // block * block - output_tokens)
        limits.append(ContextLimit(count, min(room, held_tokens), "cache" if room < held_tokens else "quality"))
    return limits


def most_in_flight(run: RunData, variant: VariantRun) -> int:
    """Returns the most requests of `variant` that ran at the same moment, by the timestamps. At least 1."""
    records = run.records[variant.name]
    sent = records["sent_at"].to_numpy(dtype=float)
    ended = sent + records["total_ms"].to_numpy(dtype=float) / 1000
    moments = np.concatenate([sent, ended])
    changes = np.concatenate([np.ones(len(sent)), -np.ones(len(sent))])
    # At the same moment, an end comes before a start.
    order = np.lexsort((changes, moments))
    return max(1, int(np.cumsum(changes[order]).max(initial=1)))


def memory(run: RunData, variant: VariantRun) -> Memory:
    """Compares the cache of `variant` with that of the baseline."""
    ratio, baseline_tokens = variant.facts.kv_capacity_ratio, run.baseline.facts.kv_capacity_tokens
    mine, before = _bytes_per_token(run, variant), _bytes_per_token(run, run.baseline)
    freed = (before - mine) * baseline_tokens / _GIB if mine and before and baseline_tokens else None
    from_bytes = 1 - mine / before if mine and before else None
    share = from_bytes if from_bytes is not None or not ratio else 1 - 1 / ratio
    return Memory(ratio, mine, before, baseline_tokens, freed, share)


def _bytes_per_token(run: RunData, variant: VariantRun) -> float | None:
    facts = variant.facts
    gib, tokens = facts.kv_cache_gib or cpu_cache_gib(run.manifest, variant), facts.kv_capacity_tokens
    return gib * _GIB / tokens if gib and tokens else None
