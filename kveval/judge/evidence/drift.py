"""Measures how far the next-token distribution moved, as long as both sides had read the same text.

Baseline and candidate predict from the same prefix up to the first token that differs, and including it. Later
positions have different prefixes and are left out. Two runs of the same engine drift too, so read the numbers against
those of the A/A run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kveval.judge.statistics.clusters import clustered_se
from kveval.run.records import unpack_logprobs

# vLLM writes -inf as -9999.0. Such a token is not among the alternatives.
_MINUS_INFINITY = -9000.0
# After rounding of 20 float32 logprobs the rest can be zero or below. A larger rest only lowers the divergence.
_LEAST_REST = 1e-6
# Matching the alternatives of a position takes k x k comparisons: 8 MB for this many positions.
_BATCH_POSITIONS = 20_000
_Part = tuple[
    str, NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]
]  # fmt: skip
POSITION_COLUMNS = ["sample_id", "position", "kl", "same_top1", "baseline_p", "candidate_p"]


@dataclass(frozen=True, slots=True)
class Drift:
    """Sums up the positions with a shared prefix. Errors are clustered by haystack.

    Attributes:
        kl_mean, kl_median, kl_p90, kl_p99, kl_max: KL(baseline || candidate) in nats, each a lower bound.
        kl_se, same_top1_se: None with fewer than two haystacks.
        same_top1: share of positions with the same most likely token.
        token_p_change: mean change of the probability of the baseline's token, in [-1, 1]. Negative means less sure.
    """

    samples: int
    positions: int
    kl_mean: float
    kl_se: float | None
    kl_median: float
    kl_p90: float
    kl_p99: float
    kl_max: float
    same_top1: float
    same_top1_se: float | None
    token_p_change: float


def drift_positions(baseline: pd.DataFrame, candidate: pd.DataFrame, sample_ids: Iterable[str]) -> pd.DataFrame:
    """Returns every comparable position of the given samples, with the columns `POSITION_COLUMNS`.

    Both sides are records as in `RunData.records`. A sample gives no rows unless both have logprobs.
    """
    tables = [_positions(batch) for batch in _batches(_comparable(baseline, candidate, sample_ids))]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=POSITION_COLUMNS)


def _comparable(baseline: pd.DataFrame, candidate: pd.DataFrame, sample_ids: Iterable[str]) -> Iterator[_Part]:
    """Yields one sample after the other, because all logprobs of a large run do not fit into memory at once."""
    first, second = baseline[["output_token_ids", "logprobs"]], candidate[["output_token_ids", "logprobs"]]
    shared = [i for i in sample_ids if i in first.index and i in second.index]
    pairs = zip(first.loc[shared].itertuples(), second.loc[shared].itertuples(index=False), strict=True)
    for (sample_id, our_tokens, ours), (their_tokens, theirs) in pairs:
        if not isinstance(ours, str) or not isinstance(theirs, str):
            continue
        (our_ids, our_logprobs), (their_ids, their_logprobs) = unpack_logprobs(ours), unpack_logprobs(theirs)
        count = min(shared_positions(our_tokens, their_tokens), len(our_ids), len(their_ids))
        if count and our_ids.shape[1] and their_ids.shape[1]:
            tokens = np.asarray(our_tokens[:count], dtype=np.int64)
            yield sample_id, tokens, our_ids[:count], our_logprobs[:count], their_ids[:count], their_logprobs[:count]


def summarize(positions: pd.DataFrame, haystack_ids: pd.Series) -> Drift | None:
    """Sums up rows of `drift_positions`, with `haystack_ids` by sample_id. None without rows."""
    if positions.empty:
        return None
    kl = positions["kl"].to_numpy(dtype=np.float64)
    same = positions["same_top1"].to_numpy(dtype=np.float64)
    codes, names = pd.factorize(haystack_ids.loc[positions["sample_id"]])
    median, p90, p99 = (float(q) for q in np.quantile(kl, (0.5, 0.9, 0.99)))
    clustered = len(names) > 1
    return Drift(
        samples=int(positions["sample_id"].nunique()),
        positions=len(positions),
        kl_mean=float(kl.mean()),
        kl_se=clustered_se(kl, codes) if clustered else None,
        kl_median=median,
        kl_p90=p90,
        kl_p99=p99,
        kl_max=float(kl.max()),
        same_top1=float(same.mean()),
        same_top1_se=clustered_se(same, codes) if clustered else None,
        token_p_change=float((positions["candidate_p"] - positions["baseline_p"]).mean()),
    )


def ratio_to_noise(drift: Drift | None, noise: Drift | None) -> float | None:
    """Returns the mean KL over that of the A/A run. None if either is missing or the A/A run did not drift."""
    if drift is None or noise is None or noise.kl_mean <= 0:
        return None
    return drift.kl_mean / noise.kl_mean


def kl_lower_bound(
    p_ids: NDArray[np.int32], p_logprobs: NDArray[np.float32], q_ids: NDArray[np.int32], q_logprobs: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Returns KL(P || Q) in nats of each position [tokens] from two top-k lists [tokens, k].

    Tokens in both lists count one by one. All other tokens are merged into one. Merging never raises a divergence
    (Cover and Thomas, "Elements of Information Theory", the data processing inequality), so the divergence over the
    full vocabulary is at least this.

    Args:
        p_ids, q_ids: -1 if the engine gave fewer than k alternatives. A token occurs at most once in a row.
        p_logprobs, q_logprobs: natural logarithms. vLLM's -9999 for -inf counts as not given.
    """
    p, q = p_logprobs.astype(np.float64), q_logprobs.astype(np.float64)
    usable = (p_ids >= 0)[:, :, None] & (q_ids >= 0)[:, None, :]
    usable &= (p > _MINUS_INFINITY)[:, :, None] & (q > _MINUS_INFINITY)[:, None, :]
    common = usable & (p_ids[:, :, None] == q_ids[:, None, :])
    of_p = common.any(axis=2)
    matched = np.take_along_axis(q, common.argmax(axis=2), axis=1)
    masses = np.where(of_p, np.exp(p), 0.0)
    listed = np.where(of_p, masses * (p - np.where(of_p, matched, 0.0)), 0.0).sum(axis=1)
    p_rest = np.clip(1 - masses.sum(axis=1), 0.0, 1.0)
    q_rest = np.clip(1 - np.where(of_p, np.exp(matched), 0.0).sum(axis=1), _LEAST_REST, 1.0)
    rest = np.where(p_rest > _LEAST_REST, p_rest * np.log(np.maximum(p_rest, _LEAST_REST) / q_rest), 0.0)
    divergence: NDArray[np.float64] = np.maximum(listed + rest, 0.0)
    return divergence


def shared_positions(ours: list[int], theirs: list[int]) -> int:
    """Counts the positions predicted from the same prefix: up to the first differing token, and including it."""
    return min(shared_prefix(ours, theirs) + 1, len(ours), len(theirs))


def shared_prefix(first: Sequence[object], second: Sequence[object]) -> int:
    """Counts the elements that both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _batches(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    batch: list[_Part] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += len(part[1])
        if size >= _BATCH_POSITIONS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _positions(parts: Sequence[_Part]) -> pd.DataFrame:
    counts = [len(tokens) for _, tokens, *_ in parts]
    sample_ids, all_tokens, *lists = zip(*parts, strict=True)
    our_ids, their_ids = _stack(lists[0], fill=-1), _stack(lists[2], fill=-1)
    our_logprobs, their_logprobs = _stack(lists[1], fill=0), _stack(lists[3], fill=0)
    tokens = np.concatenate(all_tokens)
    table = pd.DataFrame(
        {
            "sample_id": np.repeat(np.asarray(sample_ids, dtype=object), counts),
            "position": np.concatenate([np.arange(count) for count in counts]),
            "kl": kl_lower_bound(our_ids, our_logprobs, their_ids, their_logprobs),
            "same_top1": our_ids[:, 0] == their_ids[:, 0],
            "baseline_p": _probability(tokens, our_ids, our_logprobs),
            "candidate_p": _probability(tokens, their_ids, their_logprobs),
        }
    )
    known = (our_ids[:, 0] >= 0) & (their_ids[:, 0] >= 0)
    return table.loc[np.flatnonzero(known)]


def _stack(arrays: Sequence[NDArray[Any]], *, fill: int) -> NDArray[Any]:
    """Stacks the arrays [positions, k] of several samples. The largest k holds for all."""
    k = max(array.shape[1] for array in arrays)
    padded = [
        array if array.shape[1] == k else np.pad(array, ((0, 0), (0, k - array.shape[1])), constant_values=fill)
        for array in arrays
    ]
    return np.concatenate(padded)


def _probability(
    tokens: NDArray[np.int64], ids: NDArray[np.int32], logprobs: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Returns the probability of each token [n]: for one that is not listed, the lowest listed as an upper bound."""
    p = np.where((ids >= 0) & (logprobs > _MINUS_INFINITY), np.exp(logprobs.astype(np.float64)), np.inf)
    match = (ids == tokens[:, None]) & np.isfinite(p)
    listed = np.where(match, p, 0.0).sum(axis=1)
    return np.where(match.any(axis=1), listed, np.min(p, axis=1, initial=1.0))
