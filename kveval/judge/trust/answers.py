"""Tests the answers of a variant against the order in which they were asked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kveval.judge.comparison.pairing import has_right_answer
from kveval.judge.run_data import RunData
from kveval.judge.statistics.time_change import TimeChange, find_change
from kveval.judge.trust.problem import Problem, clock, iso_time
from kveval.run.records import unpack_logprobs

# The smallest change of each mean that counts. Smaller ones can come from the server's load, which changes batches and
# with them the last bits of a result.
_LEAST = {
    "score": 0.05,
    "difference": 0.05,
    "expected": 0.05,
    "expected difference": 0.05,
    "degenerate": 0.1,
    "unanswered": 0.1,
    "identical": 0.3,
    "logprob": 0.25,
}
_SHOWN = {"difference": "score", "expected difference": "expected"}
_WORDS = {
    "expected": "the expected score is {0:.2f} {where} and {1:.2f} {there}",
    "score": "the score is {0:.2f} {where} and {1:.2f} {there}",
    "degenerate": "{0:.0%} of the answers are empty, cut off or repeat another {where}, and {1:.0%} {there}",
    "unanswered": "{0:.0%} of the questions have no answer {where}, and {1:.0%} {there}",
    "identical": "{0:.0%} of the answers equal the baseline's {where}, and {1:.0%} {there}",
    "logprob": "a token's mean logprob is {0:.2f} {where} and {1:.2f} {there}",
}
_DEGENERATE = ("empty", "truncated", "truncated_thinking", "invalid_format")


def answers_change(run: RunData, variant: str, *, against_baseline: bool, unanswered_limit: float) -> Problem | None:
    """Returns the moment at which the answers of `variant` change. None if they do not.

    Args:
        against_baseline: also test the answers relative to the baseline's to the same questions, which shows smaller
            changes. Only sensible if the baseline's own answers do not change.
        unanswered_limit: the share of questions without an answer up to which such questions are no change.
    """
    records = run.asked_here(variant).sort_values("sent_at", kind="stable")
    if records.empty:
        return None
    samples = run.samples.loc[records.index]
    baseline = run.records[run.manifest.baseline] if against_baseline else None
    series = _series(records, samples, baseline, unanswered_limit)
    cells = pd.MultiIndex.from_frame(samples[["task", "context_length"]]).factorize()[0].astype(np.intp)
    blocks = pd.MultiIndex.from_frame(samples[["task", "context_length", "haystack_id"]]).factorize()[0].astype(np.intp)
    change = find_change(series, cells, blocks, least=_LEAST, seed=_seed(run, variant))
    return _problem(variant, change, series, records["sent_at"].to_numpy(dtype=np.float64)) if change else None


def _series(
    records: pd.DataFrame, samples: pd.DataFrame, baseline: pd.DataFrame | None, unanswered_limit: float
) -> dict[str, NDArray[np.float64]]:
    outcome = records["outcome"].to_numpy(dtype=object)
    answered = outcome != "engine_error"
    scored = answered & has_right_answer(samples)
    score = records["score"].to_numpy(dtype=np.float64)
    series = {
        "score": np.where(scored, score, np.nan),
        "degenerate": np.where(answered, _is_degenerate(records), np.nan),
        "logprob": _mean_logprobs(records),
    }
    expected = _expected(records)
    if not np.isnan(expected).all():
        series["expected"] = expected
    if (~answered).mean() > unanswered_limit:
        series["unanswered"] = (~answered).astype(np.float64)
    if baseline is not None:
        first = baseline.reindex(records.index)
        both = answered & (first["outcome"].notna() & (first["outcome"] != "engine_error")).to_numpy(dtype=bool)
        differences = score - first["score"].to_numpy(dtype=np.float64)
        series["difference"] = np.where(both & scored, differences, np.nan)
        series["expected difference"] = expected - _expected(first)
        identical = (records["output"] == first["output"]).to_numpy(dtype=np.float64)
        series["identical"] = np.where(both, identical, np.nan)
    return series


def _is_degenerate(records: pd.DataFrame) -> NDArray[np.bool_]:
    """Tells which answers are not right and are empty, cut off, unreadable, or the answer to another question too."""
    outcomes = records["outcome"].to_numpy(dtype=object)
    repeated = records["output"].str.strip().duplicated(keep=False).to_numpy(dtype=bool)
    degenerate: NDArray[np.bool_] = np.isin(outcomes, _DEGENERATE) | (
        repeated & ~np.isin(outcomes, ("correct", "abstained", "refused"))
    )
    return degenerate


def _expected(records: pd.DataFrame) -> NDArray[np.float64]:
    """Returns the expected score of each record, NaN without one."""
    scores = [one["score"] if isinstance(one, Mapping) else np.nan for one in records["expected"]]
    return np.array(scores, dtype=np.float64)


def _mean_logprobs(records: pd.DataFrame) -> NDArray[np.float64]:
    """Returns the mean logprob of the most likely tokens of each answer, NaN without logprobs."""
    means = np.full(len(records), np.nan)
    for index, packed in enumerate(records["logprobs"]):
        if isinstance(packed, str):
            _, logprobs = unpack_logprobs(packed)
            if logprobs.size:
                means[index] = float(logprobs[:, 0].mean())
    return means


def _seed(run: RunData, variant: str) -> list[int]:
    digest = hashlib.sha256(f"{run.manifest.samples_sha256}/{variant}".encode()).digest()
    return [int.from_bytes(digest[:8], "big")]


def _problem(
    variant: str, change: TimeChange, series: dict[str, NDArray[np.float64]], sent_at: NDArray[np.float64]
) -> Problem:
    count = len(sent_at)
    start, stop = (change.start, change.stop) if change.start else (change.stop, count)
    inside = np.zeros(count, dtype=bool)
    inside[start:stop] = True
    at, end = (iso_time(float(sent_at[index])) for index in (start, min(stop, count - 1)))
    shown = _SHOWN.get(change.series, change.series)
    where, there = "before", "from there on"
    message = f"{variant}: answers change at question {start + 1:,} of {count:,}{clock(at)}"
    if stop < count:
        message += f" and change back at question {stop + 1:,}{clock(end)}"
        where, there = "outside", "between"
    figures = [
        _WORDS[name].format(*_means(series[name], inside), where=where, there=there)
        for name in dict.fromkeys(("score", shown))
        if not np.isnan(series[name]).all()
    ]
    message = (
        f"{message}: {'; '.join(figures)}. The order of asking explains it, and not length or task "
        f"(p = {change.p:.2g}): the server changed"
    )
    return Problem(variant, "answers_change", message, start + 1, at)


def _means(values: NDArray[np.float64], inside: NDArray[np.bool_]) -> tuple[float, float]:
    def mean(chosen: NDArray[np.float64]) -> float:
        known = chosen[~np.isnan(chosen)]
        return float(known.mean()) if len(known) else 0.0

    return mean(values[~inside]), mean(values[inside])
