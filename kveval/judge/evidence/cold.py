"""Shows what the prefix cache changes: the same samples answered with it and without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

from kveval.errors import RunDirectoryError
from kveval.judge.evidence.drift import shared_prefix
from kveval.judge.evidence.noise import aa_flips
from kveval.judge.run_data import RunData
from kveval.judge.statistics.hypothesis_tests import holm
from kveval.run.directory import RunDirectory
from kveval.run.facts import Finding
from kveval.run.manifest import VariantRun
from kveval.run.records import Record

_ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class ColdDifference:
    """Shows one sample whose output changes without the prefix cache.

    Attributes:
        position: of the first token that differs, counted from 1, or of the first character if token ids are missing.
    """

    sample_id: str
    task: str
    context_length: int
    warm_outcome: str
    cold_outcome: str
    position: int
    warm_output: str
    cold_output: str


@dataclass(frozen=True, slots=True)
class FlipTest:
    """Compares the flips of a variant with those of something else, over the `n` samples that both have.

    Attributes:
        own, others: samples that flip.
        only_own, only_others: samples that flip in one of the two only.
        p: exact one-sided p-value of `only_own`, if a sample that flips in one of them is as likely in either.
    """

    n: int
    own: int
    others: int
    only_own: int
    only_others: int
    p: float


@dataclass(frozen=True, slots=True)
class ColdComparison:
    """Compares the answers of one variant with and without the prefix cache.

    Attributes:
        asked: samples that were asked again without the cache.
        n: samples that can be compared: the first answer came from the cache, the second did not.
        unanswered: samples with an engine error, or without an answer from the cache.
        not_cold, not_warm: samples whose second answer came in part from the cache, or whose first did not.
        lost, gained: correct only from the cache, and only without it.
        baseline, noise: the flips compared with those of the baseline's own cold samples, and of its A/A run.
        planned_share, hit_share: share of all prompt tokens that were planned to come, and came, from the cache.
    """

    variant: str
    asked: int
    n: int
    unanswered: int
    not_cold: int
    not_warm: int
    identical: int
    lost: int
    gained: int
    baseline: FlipTest | None
    noise: FlipTest | None
    planned_share: float | None
    hit_share: float | None
    differences: tuple[ColdDifference, ...]
    finding: Finding | None


def cold_comparisons(run: RunData) -> list[ColdComparison]:
    """Compares every variant that has cold answers or planned cache hits, the baseline first.

    Raises:
        RunDirectoryError: a cold answer belongs to a sample that the run does not have.
    """
    of_baseline: pd.Series | None = None
    checks = []
    for variant in run.baseline_first:
        pairs, counts = _pairs(run, variant.name)
        flips = pairs["warm_correct"] != pairs["cold_correct"]
        planned, hit = _shares(variant)
        if counts["asked"] or planned:
            check = ColdComparison(
                variant=variant.name,
                **counts,
                n=len(pairs),
                identical=int(pairs["identical"].sum()),
                lost=int((pairs["warm_correct"] & ~pairs["cold_correct"]).sum()),
                gained=int((~pairs["warm_correct"] & pairs["cold_correct"]).sum()),
                baseline=_flip_test(flips, of_baseline),
                noise=_flip_test(flips, aa_flips(run)),
                planned_share=planned,
                hit_share=hit,
                differences=tuple(pairs.loc[~pairs["identical"].astype(bool), "difference"]),
                finding=None,
            )
            checks.append(replace(check, finding=_finding(check)))
        if of_baseline is None:
            of_baseline = flips
    return checks


def _pairs(run: RunData, variant: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Returns one row per sample that can be compared, by sample_id, and the counts of those that cannot."""
    answers = list(RunDirectory(run.path).cold_records(variant))
    asked = pd.Index([cold.sample_id for cold in answers])
    warm = run.records[variant].loc[run.records[variant].index.isin(asked)].to_dict("index")
    rows, counts = [], dict.fromkeys(("asked", "unanswered", "not_cold", "not_warm"), 0)
    for cold in answers:
        if cold.sample_id not in run.samples.index:
            path = RunDirectory(run.path).cold_path(variant)
            raise RunDirectoryError(f"{path}: sample {cold.sample_id} is not in samples.jsonl")
        counts["asked"] += 1
        first = warm.get(cold.sample_id)
        if first is None or "engine_error" in (cold.outcome, first["outcome"]):
            counts["unanswered"] += 1
        elif cold.cached_tokens:
            counts["not_cold"] += 1
        elif first["cached_tokens"] == 0:
            counts["not_warm"] += 1
        else:
            rows.append(_pair(cold, first))
    columns = ["sample_id", "warm_correct", "cold_correct", "identical", "difference"]
    frame = pd.DataFrame(rows, columns=columns).set_index("sample_id")
    return frame.astype({"warm_correct": bool, "cold_correct": bool, "identical": bool}), counts


def _pair(cold: Record, warm: Mapping[Any, Any]) -> tuple[str, bool, bool, bool, ColdDifference | None]:
    ids = list(warm["output_token_ids"]), cold.output_token_ids
    texts = str(warm["output"]), cold.output
    first, second = ids if all(ids) else texts
    identical = first == second
    difference = None
    if not identical:
        position = shared_prefix(first, second) + 1
        difference = ColdDifference(
            cold.sample_id, cold.task, cold.context_length, str(warm["outcome"]), cold.outcome, position, *texts
        )
    return cold.sample_id, warm["outcome"] == "correct", cold.outcome == "correct", identical, difference


def _flip_test(own: pd.Series, others: pd.Series | None) -> FlipTest | None:
    if others is None:
        return None
    both = own.index.intersection(others.index)
    if not len(both):
        return None
    first: NDArray[np.bool_] = own[both].to_numpy(dtype=bool)
    second: NDArray[np.bool_] = others[both].to_numpy(dtype=bool)
    only_own, only_others = int((first & ~second).sum()), int((second & ~first).sum())
    discordant = only_own + only_others
    p = float(binomtest(only_own, discordant, 0.5, alternative="greater").pvalue) if discordant else 1.0
    return FlipTest(len(both), int(first.sum()), int(second.sum()), only_own, only_others, p)


def _shares(variant: VariantRun) -> tuple[float | None, float | None]:
    hits, asked = variant.counters.get("prefix_cache_hits"), variant.counters.get("prefix_cache_queries")
    if hits is None or not asked:
        return None, None
    return variant.planned_hit_tokens / asked, hits / asked


def _finding(check: ColdComparison) -> Finding | None:
    if check.not_cold and check.not_cold >= check.n:
        message = (
            f"{check.not_cold} of {check.asked} questions were answered from the prefix cache although "
            "each was sent with its own cache salt, so the cold check compares nothing"
        )
        return Finding.warning("cold_check_not_cold", message)
    tests = {"the baseline's answers": check.baseline, "the A/A run's answers": check.noise}
    known = {whose: test for whose, test in tests.items() if test is not None}
    for (whose, test), p in zip(known.items(), holm([one.p for one in known.values()]), strict=True):
        if p < _ALPHA:
            message = (
                f"{test.own} of {test.n} answers flip without the prefix cache ({check.lost} right only with it, "
                f"{check.gained} only without it), but only {test.others} of {whose} (exact p {p:.2g})"
            )
            return Finding.warning("prefix_cache_differs", message)
    return None
