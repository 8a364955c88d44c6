"""The judge on nights whose servers break, or do not: false alarms and power of what distrusts a server over time.

Every night is a run as the judge reads it, and `judge_run` judges it. A baseline, its second run and one candidate
answer the same questions. Difficulty is shared within a haystack, and each run adds noise of its own.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from benchmarks.nights import records_of
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.run_data import SAMPLE_COLUMNS, RunData
from kveval.judge.statistics.time_change import find_change
from kveval.run.manifest import Manifest
from kveval.run.records import ids_sha256

_NIGHTS = 300
_POWER_NIGHTS = 60
_DIRECT = 20_000


@dataclass(frozen=True)
class Night:
    """`cells` of `haystacks` x `questions`; `interleaved`: haystacks of all cells are asked in a random order.

    Attributes:
        icc: share of the difficulty that the questions of a haystack have in common.
        noise: share of the latent difficulty that each run draws anew.
        broken: the variant whose server breaks, between these two shares of its questions.
        damage: the share of its answers that are lost then.
    """

    cells: int = 6
    haystacks: int = 20
    questions: int = 10
    icc: float = 0.2
    noise: float = 0.05
    interleaved: bool = True
    broken: str | None = None
    since: float = 0.5
    until: float = 1.0
    damage: float = 1.0
    loss: float = 0.0


def run_of(night: Night, seed: int) -> RunData:
    """Returns a night as `load_run` would."""
    rng = np.random.default_rng([seed, 1])
    samples = _samples(night)
    order = _order(samples, night, rng)
    shares = np.linspace(0.6, 0.95, night.cells)[samples["cell"].to_numpy()]
    haystack = rng.normal(size=night.cells * night.haystacks)[samples["block"].to_numpy()]
    common = math.sqrt(night.icc) * haystack + math.sqrt(1 - night.icc) * rng.normal(size=len(samples))
    second_run = np.sort(rng.permutation(len(samples))[: max(len(samples) // 10, 30)])
    variants = {
        "bf16": {"role": "baseline"}, "bf16-aa": {"role": "aa", "of": "bf16"}, "fp8": {"role": "candidate"},
    }  # fmt: skip
    ids = samples.index
    records = {}
    for name in variants:
        latent = math.sqrt(1 - night.noise) * common + math.sqrt(night.noise) * rng.normal(size=len(samples))
        wanted = shares - night.loss if name == "fp8" else shares
        right = latent < special.ndtri(wanted)
        asked = order[np.isin(order, second_run)] if name == "bf16-aa" else order
        if name == night.broken:
            hit = asked[round(night.since * len(asked)) : round(night.until * len(asked))]
            right[hit] &= rng.random(len(hit)) >= night.damage
        records[name] = records_of(ids, right, asked)
    manifest = Manifest.model_validate(
        {
            "kveval_version": "0.1.0", "run_id": f"night-{seed}", "created": "2026-01-02T03:04:05Z",
            "status": "complete", "config": {}, "inputs": {}, "seeds": {}, "sampling": {}, "samples": len(ids),
            "samples_sha256": ids_sha256(ids), "aa_sample_ids": list(ids[second_run]), "baseline": "bf16",
            "variants": {name: {"name": name, "spec": {}, "status": "complete", **one}
                         for name, one in variants.items()},
            "versions": {}, "machine": {},
        }
    )  # fmt: skip
    return RunData(Path("night"), manifest, samples.drop(columns=["cell", "block"]), records)


def _samples(night: Night) -> pd.DataFrame:
    rows = []
    for cell in range(night.cells):
        task, length = f"task_{cell // 3}", 4096 << (cell % 3)
        for block in range(night.haystacks):
            for question in range(night.questions):
                name = f"{cell:03}-{block:03}-{question:03}"
                values = {
                    "sample_id": name, "haystack_id": f"{cell}-{block}", "task": task, "family": f"family_{cell % 2}",
                    "context_length": length, "prompt_tokens": length, "prompt_sha256": name, "depth_percent": None,
                    "max_output_tokens": 32, "doc": {}, "first_look": 1,
                }  # fmt: skip
                rows.append([values.get(key) for key in SAMPLE_COLUMNS] + [cell, cell * night.haystacks + block])
    return pd.DataFrame(rows, columns=[*SAMPLE_COLUMNS, "cell", "block"]).set_index("sample_id")


def _order(samples: pd.DataFrame, night: Night, rng: np.random.Generator) -> NDArray[np.intp]:
    if not night.interleaved:
        return np.arange(len(samples))
    place = rng.permutation(night.cells * night.haystacks)[samples["block"].to_numpy()]
    return np.argsort(place, kind="stable")


def problems(night: Night, nights: int, seed: int) -> dict[str, Any]:
    """Judges nights of one kind: the share of nights with each problem, with none, and with a pass."""
    found: Counter[str] = Counter()
    starts: list[float] = []
    for index in range(nights):
        judgement = judge_run(run_of(night, seed=seed * 100_000 + index))
        for key in {f"{one.code} of {one.variant}" for one in judgement.problems}:
            found[key] += 1
        found["any"] += bool(judgement.problems)
        found["pass"] += _passes(judgement)
        starts += [one.at_question for one in judgement.problems if one.at_question and one.variant == night.broken]
    asked = night.cells * night.haystacks * night.questions
    truth = round(night.since * asked) + 1
    errors = np.abs(np.array(starts) - truth) if night.broken in ("bf16", "fp8") and starts else None
    return {
        "night": {key: value for key, value in vars(night).items() if value != getattr(Night(), key)},
        "nights": nights,
        **{key: round(count / nights, 4) for key, count in sorted(found.items())},
        "median_error_questions": None if errors is None else float(np.median(errors)),
    }


def _passes(judgement: Judgement) -> bool:
    (overall,) = judgement.of("fp8", "overall")
    return overall.verdict is not None and overall.verdict.word == "pass"


def alarm_rate(draw: Callable[[np.random.Generator], tuple[dict[str, NDArray[np.float64]], NDArray[np.intp],
               NDArray[np.intp]]], count: int, seed: int) -> float:  # fmt: skip
    """Returns how often the test alone finds a change where there is none."""
    rng = np.random.default_rng(seed)
    alarms = 0
    for index in range(count):
        series, cells, blocks = draw(rng)
        alarms += find_change(series, cells, blocks, least=dict.fromkeys(series, 0.0), seed=[seed, index]) is not None
    return alarms / count


def clustered(rng: np.random.Generator) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.intp], NDArray[np.intp]]:
    """Draws 40 haystacks of 6 questions in 4 cells, asked one after the other; half of the difficulty is shared."""
    blocks = np.repeat(np.arange(40), 6)
    cells = blocks // 10
    shares = np.linspace(0.3, 0.9, 4)[cells]
    latent = math.sqrt(0.5) * rng.normal(size=40)[blocks] + math.sqrt(0.5) * rng.normal(size=240)
    return {"score": (latent < special.ndtri(shares)) * 1.0}, cells.astype(np.intp), blocks.astype(np.intp)


def measure() -> dict[str, Any]:
    started = time.perf_counter()
    shapes = {
        "6 cells x 20 x 10, interleaved": Night(),
        "6 cells x 20 x 10, cell after cell": Night(interleaved=False),
        "2 cells x 20 x 10": Night(cells=2),
        "6 cells x 6 x 10": Night(haystacks=6),
        "6 cells x 100 x 1": Night(haystacks=100, questions=1),
        "noise of two runs that share 80%": Night(noise=0.2),
        "icc 0.5": Night(icc=0.5),
        "a true loss of 5 points": Night(loss=0.05),
    }
    broken = {
        "candidate, all lost from 2/3 on": Night(broken="fp8", since=2 / 3),
        "candidate, all lost from 90% on": Night(broken="fp8", since=0.9),
        "candidate, half lost from 50% on": Night(broken="fp8", damage=0.5),
        "candidate, a fifth lost from 50% on": Night(broken="fp8", damage=0.2),
        "candidate, all lost from 40% to 60%": Night(broken="fp8", since=0.4, until=0.6),
        "candidate, 2 cells, all lost from 50% on": Night(cells=2, broken="fp8"),
        "baseline, all lost from 15% on": Night(broken="bf16", since=0.15),
        "baseline, half lost from 80% on": Night(broken="bf16", since=0.8, damage=0.5),
        "second run, all lost": Night(broken="bf16-aa", since=0.0),
    }
    return {
        "alarms_of_the_test_alone": {"level": 0.001, "draws": _DIRECT, "rate": alarm_rate(clustered, _DIRECT, 21)},
        "without_a_change": {name: problems(night, _NIGHTS, 22) for name, night in shapes.items()},
        "broken": {name: problems(night, _POWER_NIGHTS, 23) for name, night in broken.items()},
        "seconds": round(time.perf_counter() - started, 1),
    }
