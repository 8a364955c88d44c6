"""Sequential nights where the truth is known: error rates, coverage at the stop, and questions to a decision.

Every night goes through `judge_run`, with the looks of `plan_looks` and the stops of `findings_at_look`, as a sweep
takes them. The same night is judged once more as a fixed plan, which asks all of it and tests at the whole error rate.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.looks.interim import findings_at_look
from kveval.judge.run_data import RECORD_COLUMNS, SAMPLE_COLUMNS, RunData
from kveval.measure.looks.schedule import LookPlan, plan_looks
from kveval.run.looks import Look, PlannedLook, Stop
from kveval.run.manifest import Manifest
from kveval.run.records import ids_sha256
from kveval.tasks.sample import Prompt, Sample

MARGIN = 0.02
# Of each loss: the error rates of 5% and 2.5% are known to half a point with 2,000.
NIGHTS = 2_000
_LOSSES = (0.0, 0.01, MARGIN, 0.04, 0.10)
CANDIDATE = "fp8"


@dataclass(frozen=True)
class Night:
    """A baseline and a candidate on haystacks of questions at several lengths.

    Attributes:
        loss: of the candidate at every length, or at each in turn.
        spread: standard deviation of a question's difference.
        icc: share of the variance of differences that the questions of a haystack have in common.
        is_greedy: scores are 0 or 1. Otherwise they are probabilities of the right answer.
    """

    lengths: int = 2
    haystacks: int = 30
    questions: int = 5
    loss: float | tuple[float, ...] = 0.0
    spread: float = 0.06
    icc: float = 0.1
    is_greedy: bool = False

    def loss_at(self, length: int) -> float:
        return self.loss if isinstance(self.loss, float) else self.loss[length]


@dataclass(frozen=True)
class Outcome:
    """How one night ended, in a sequential and in a fixed plan."""

    word: str
    any_fail: bool
    asked: int
    planned: int
    fixed_word: str
    fixed_any_fail: bool
    covered: int
    intervals: int
    stopped_rows_covered: int
    stopped_rows: int


@cache
def _samples(lengths: int, haystacks: int, questions: int) -> tuple[pd.DataFrame, LookPlan]:
    rows, samples = [], []
    empty = np.zeros(0, np.int32)
    for length in range(lengths):
        for haystack in range(haystacks):
            for question in range(questions):
                name = f"{length}-{haystack:04}-{question:02}"
                tokens = 4096 << length
                samples.append(
                    Sample(name, f"{length}-{haystack}", "task", "family", tokens, Prompt(empty, empty), None, {}, 8)
                )
                values = {
                    "sample_id": name, "haystack_id": f"{length}-{haystack}", "task": "task", "family": "family",
                    "context_length": tokens, "prompt_tokens": tokens, "prompt_sha256": name, "depth_percent": None,
                    "max_output_tokens": 8, "doc": {}, "first_look": 1,
                }  # fmt: skip
                rows.append([values[key] for key in SAMPLE_COLUMNS])
    plan = plan_looks([samples])
    frame = pd.DataFrame(rows, columns=list(SAMPLE_COLUMNS)).set_index("sample_id")
    frame["first_look"] = [plan.first_look[name] for name in frame.index]
    return frame, plan


def draw(night: Night, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws the scores of baseline and candidate, in the order of the samples.

    Differences are skewed: most questions lose little, some lose much.
    """
    per_length = night.haystacks * night.questions
    level: NDArray[np.float64] = rng.uniform(0.35, 0.65, night.lengths * per_length)
    loss = np.repeat([night.loss_at(length) for length in range(night.lengths)], per_length)

    def skewed(size: int) -> NDArray[np.float64]:
        return 1 - rng.gamma(4.0, 0.5, size) / 2.0 if size else np.zeros(0)

    # A gamma variable of shape 4 has a standard deviation of half its mean.
    shared = 2 * np.repeat(skewed(night.lengths * night.haystacks), night.questions)
    own = 2 * skewed(len(level))
    change = night.spread * (np.sqrt(night.icc) * shared + np.sqrt(1 - night.icc) * own)
    candidate: NDArray[np.float64] = np.clip(level - loss + change, 0.0, 1.0)
    if not night.is_greedy:
        return level, candidate
    luck = rng.random(len(level))
    return (luck < level).astype(np.float64), (luck < candidate).astype(np.float64)


def _records(ids: pd.Index, scores: NDArray[np.float64], *, is_greedy: bool) -> pd.DataFrame:
    values: dict[str, Any] = dict.fromkeys(RECORD_COLUMNS)
    right = scores >= 0.5 if is_greedy else np.zeros(len(ids), dtype=bool)
    values |= {
        "sample_id": ids,
        "outcome": np.where(right, "correct", "wrong"),
        "score": right.astype(float),
        "output": [f"{name} {ok}" for name, ok in zip(ids, right, strict=True)],
        "sent_at": 1.8e9 + np.arange(len(ids), dtype=float),
        "expected": None
        if is_greedy
        else [{"score": one, "unit": "probability", "temperature": 1.0, "texts": "same"} for one in scores.tolist()],
    }
    return pd.DataFrame(values).set_index("sample_id")


def run_of(night: Night, rng: np.random.Generator) -> RunData:
    """Returns a night of which nothing was looked at yet."""
    samples, plan = _samples(night.lengths, night.haystacks, night.questions)
    scores = draw(night, rng)
    names = ("bf16", CANDIDATE)
    manifest = Manifest.model_validate(
        {
            "kveval_version": "0.1.0", "run_id": "night", "created": "2026-01-02T03:04:05Z", "status": "complete",
            "config": {"judge": {"margin": MARGIN}}, "inputs": {}, "seeds": {}, "sampling": {},
            "samples": len(samples), "samples_sha256": ids_sha256(samples.index), "baseline": "bf16",
            "planned_looks": plan.looks, "versions": {}, "machine": {},
            "variants": {name: {"name": name, "spec": {}, "status": "complete",
                                "role": "baseline" if name == "bf16" else "candidate"} for name in names},
        }
    )  # fmt: skip
    records = {
        name: _records(samples.index, side, is_greedy=night.is_greedy) for name, side in zip(names, scores, strict=True)
    }
    return RunData(Path("night"), manifest, samples, records)


def looked_at(run: RunData) -> Iterator[RunData]:
    """Takes the looks of a night, and yields the run after each. Lengths that stop are not asked further."""
    whole = run.records[CANDIDATE]
    stopped: dict[int, Stop] = {}
    looks: list[Look] = []
    for planned in run.manifest.planned_looks:
        lengths = sorted(set(run.samples["context_length"].unique()) - stopped.keys())
        if not lengths:
            return
        looks = [*looks, _look(planned, lengths)]
        now = _with(run, whole, looks, stopped)
        found = findings_at_look(now, CANDIDATE)
        looks[-1] = looks[-1].model_copy(update={"lengths": found})
        stopped = stopped | {
            length: Stop(look=planned.number, cause=one.stop, reason="") for length, one in found.items() if one.stop
        }
        yield _with(run, whole, looks, stopped)


def _look(planned: PlannedLook, lengths: list[int]) -> Look:
    return Look(**planned.model_dump(), at="2026-01-02T03:04:05Z", questions=0, context_lengths=lengths)


def _with(run: RunData, whole: pd.DataFrame, looks: list[Look], stopped: dict[int, Stop]) -> RunData:
    number = looks[-1].number
    last = run.samples["context_length"].map({length: stop.look for length, stop in stopped.items()}).fillna(number)
    asked = (run.samples["first_look"] <= last).to_numpy(dtype=bool)
    status = "complete" if set(run.samples["context_length"]) <= stopped.keys() else "running"
    if number == run.manifest.planned_looks[-1].number:
        status = "complete"
    variant = run.manifest.variants[CANDIDATE].model_copy(
        update={"looks": looks, "stopped": dict(stopped), "status": status}
    )
    manifest = run.manifest.model_copy(update={"variants": {**run.manifest.variants, CANDIDATE: variant}})
    return replace(run, manifest=manifest, records={**run.records, CANDIDATE: whole[asked]})


def outcome(night: Night, rng: np.random.Generator) -> Outcome:
    run = run_of(night, rng)
    *_, end = looked_at(run)
    fixed = judge_run(replace(run, manifest=run.manifest.model_copy(update={"planned_looks": []})))
    judged = judge_run(end)
    rows = judged.of(CANDIDATE, "length")
    covered = [_covers(row, night) for row in rows]
    early = [
        _covers(row, night) for row in rows if row.scope.context_length in end.manifest.variants[CANDIDATE].stopped
    ]
    return Outcome(
        word=_word(judged),
        any_fail=_any_fails(judged),
        asked=len(end.records[CANDIDATE]),
        planned=len(run.samples),
        fixed_word=_word(fixed),
        fixed_any_fail=_any_fails(fixed),
        covered=sum(covered),
        intervals=len(covered),
        stopped_rows_covered=sum(early),
        stopped_rows=len(early),
    )


def _covers(row: Comparison, night: Night) -> bool:
    truth = -night.loss_at(int(row.scope.context_length or 0).bit_length() - 13)
    low, high = row.difference.low, row.difference.high
    return low is not None and high is not None and low - 1e-12 <= truth <= high + 1e-12


def _word(judgement: Judgement) -> str:
    (found,) = headlines(judgement)
    return found.word


def _any_fails(judgement: Judgement) -> bool:
    return any(row.verdict is not None and row.verdict.word == "fail" for row in judgement.comparisons)


def measure(nights: int = NIGHTS) -> dict[str, Any]:
    """Returns how sequential nights end at several true losses, by the expected score and by greedy answers."""
    kinds = [Night(loss=loss, is_greedy=is_greedy) for is_greedy in (False, True) for loss in _LOSSES]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        found = list(pool.map(shares, kinds, [nights] * len(kinds), range(len(kinds))))
    half = len(_LOSSES)
    return {"margin": MARGIN, "expected_score": found[:half], "greedy": found[half:]}


def shares(night: Night, nights: int, seed: int) -> dict[str, Any]:
    """Returns how `nights` of one kind end, and how many questions that takes."""
    seen = [outcome(night, np.random.default_rng([seed, number])) for number in range(nights)]

    def share(of: list[bool]) -> float:
        return round(sum(of) / len(of), 4)

    decided = [one for one in seen if one.word != "undecided"]
    return {
        "loss": night.loss,
        "nights": nights,
        "fails": share([one.any_fail for one in seen]),
        "passes": share([one.word == "pass" for one in seen]),
        "undecided": share([one.word == "undecided" for one in seen]),
        "fails_as_a_fixed_plan": share([one.fixed_any_fail for one in seen]),
        "passes_as_a_fixed_plan": share([one.fixed_word == "pass" for one in seen]),
        "questions_over_fixed": round(sum(one.asked / one.planned for one in seen) / nights, 3),
        "questions_over_fixed_where_decided": None
        if not decided
        else round(sum(one.asked / one.planned for one in decided) / len(decided), 3),
        "coverage_at_the_stop": round(sum(one.covered for one in seen) / sum(one.intervals for one in seen), 4),
    }
