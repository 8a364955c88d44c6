"""Simulated nights whose truth is known: what `judge_run` decides, and what other rules decide beside it.

Scores are 0 or 1 from a latent normal variable. A part of it is the haystack's (the intra-cluster correlation), and a
part of either is drawn anew on each side: the noise of two runs of one engine.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from benchmarks.other_rules import Scores, Word, fixed_tolerance, nemo_gate, unpaired_z
from kveval.config.judge import Policy
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import RECORD_COLUMNS, SAMPLE_COLUMNS, RunData
from kveval.judge.statistics.clusters import fewest_clusters
from kveval.judge.statistics.difference import Difference, paired_difference
from kveval.judge.statistics.power import POWER, more_samples
from kveval.run.manifest import Manifest
from kveval.run.records import ids_sha256

POLICY = Policy()
_LENGTHS, _FAMILIES = 4, 2


@dataclass(frozen=True)
class Setting:
    """A night: `cells` of `haystacks` x `questions` each, baseline scores spread evenly from `least_score` to 0.98.

    Attributes:
        icc: share of the difficulty that the questions of a haystack have in common.
        noise: share of the latent difficulty that each side draws anew.
        loss: of the candidate, in every cell. ruined: the chance that it loses a whole haystack.
        lengths: how many context lengths the cells are spread over.
    """

    cells: int
    haystacks: int
    questions: int
    icc: float
    noise: float = 0.05
    loss: float = 0.0
    ruined: float = 0.0
    lengths: int = _LENGTHS
    least_score: float = 0.5


@dataclass(frozen=True)
class Night:
    """What was decided about a night.

    Attributes:
        cells: differences of the single cells.
        word: of the headline of `judge_run`.
        nemo: of NeMo's gate without categories, and with each haystack as a category.
    """

    cells: list[Difference]
    word: Word
    nemo: Word
    nemo_by_haystack: Word
    fixed_tolerance_fails: bool
    unpaired_z_fails: bool


def simulate(rng: np.random.Generator, setting: Setting) -> Night:
    codes = np.repeat(np.arange(setting.haystacks), setting.questions)
    shares = np.linspace(setting.least_score, 0.98, setting.cells) if setting.cells > 1 else np.array([0.85])
    sides = [draw(rng, codes, share, setting) for share in shares]
    judgement = judge_run(run_of(sides, codes, setting), POLICY)
    return Night(
        cells=[row.difference for row in judgement.of("fp8", "cell")],
        word=headlines(judgement)[0].word,
        nemo=nemo_gate([(*side, None) for side in sides], POLICY.margin),
        nemo_by_haystack=nemo_gate([(*side, codes) for side in sides], POLICY.margin),
        fixed_tolerance_fails=any(fixed_tolerance(*side) for side in sides),
        unpaired_z_fails=any(unpaired_z(*side) for side in sides),
    )


def run_of(sides: list[tuple[Scores, Scores]], codes: NDArray[np.intp], setting: Setting) -> RunData:
    """Returns a night as `load_run` would: the haystacks of all cells asked in turn."""
    rows = []
    for cell in range(setting.cells):
        # Neighbouring scores go to different lengths and families, so that no row is all easy or all hard.
        task = cell // setting.lengths
        for index, haystack in enumerate(codes):
            name = f"{cell:03}-{index:05}"
            values = {
                "sample_id": name, "haystack_id": f"{cell}-{haystack}", "task": f"task_{task}",
                "family": f"family_{task % _FAMILIES}", "context_length": 4096 << (cell % setting.lengths),
                "prompt_tokens": 4096, "prompt_sha256": name, "depth_percent": None, "max_output_tokens": 32, "doc": {},
                "first_look": 1,
            }  # fmt: skip
            rows.append([values.get(key) for key in SAMPLE_COLUMNS])
    samples = pd.DataFrame(rows, columns=list(SAMPLE_COLUMNS)).set_index("sample_id")
    order = np.argsort(np.tile(codes, setting.cells), kind="stable")
    variants = {"bf16": {"role": "baseline"}, "fp8": {"role": "candidate"}}
    manifest = Manifest.model_validate(
        {
            "kveval_version": "0.1.0", "run_id": "night", "created": "2026-01-02T03:04:05Z", "status": "complete",
            "config": {}, "inputs": {}, "seeds": {}, "sampling": {}, "samples": len(samples),
            "samples_sha256": ids_sha256(samples.index), "baseline": "bf16", "versions": {}, "machine": {},
            "variants": {name: {"name": name, "spec": {}, "status": "complete", **one}
                         for name, one in variants.items()},
        }
    )  # fmt: skip
    right = [np.concatenate([side[index] for side in sides]) > 0 for index in range(2)]
    records = {name: records_of(samples.index, one, order) for name, one in zip(variants, right, strict=True)}
    return RunData(Path("night"), manifest, samples, records)


def records_of(ids: pd.Index, right: NDArray[np.bool_], asked: NDArray[np.intp]) -> pd.DataFrame:
    """Returns records of the samples that were `asked`, in this order, as `load_run` would."""
    values: dict[str, Any] = dict.fromkeys(RECORD_COLUMNS)
    values |= {
        "sample_id": ids[asked],
        "outcome": np.where(right[asked], "correct", "wrong"),
        "score": right[asked].astype(float),
        "output": [f"{name} {'is' if ok else 'is not'}" for name, ok in zip(ids[asked], right[asked], strict=True)],
        "sent_at": 1.8e9 + np.arange(len(asked), dtype=float),
    }
    return pd.DataFrame(values).set_index("sample_id")


def draw(rng: np.random.Generator, codes: NDArray[np.intp], share: float, setting: Setting) -> tuple[Scores, Scores]:
    """Scores of baseline and candidate with means `share` and ``share - loss``, less what is ruined."""

    def latent() -> Scores:
        haystack = rng.normal(size=int(codes.max()) + 1)[codes]
        return math.sqrt(setting.icc) * haystack + math.sqrt(1 - setting.icc) * rng.normal(size=len(codes))

    common = latent()
    first, second = (math.sqrt(1 - setting.noise) * common + math.sqrt(setting.noise) * latent() for _ in range(2))
    wanted = max(share - setting.loss, 0.01)
    spared = rng.random(int(codes.max()) + 1)[codes] >= setting.ruined
    return (first < special.ndtri(share)) * 1.0, ((second < special.ndtri(wanted)) & spared) * 1.0


def decided(settings: list[Setting], nights: int, seed: int) -> list[dict[str, Any]]:
    """`nights` of every setting: how often each rule decides what, and how often a cell's interval holds the truth."""
    results = []
    for index, setting in enumerate(settings):
        rng = np.random.default_rng([seed, index])
        seen = [simulate(rng, setting) for _ in range(nights)]
        cells = [cell for night in seen for cell in night.cells]
        results.append(
            {
                **{key: getattr(setting, key) for key in ("cells", "haystacks", "questions", "icc", "loss", "ruined")},
                "nights": nights,
                "kveval": _counted(night.word for night in seen),
                "nemo": _counted(night.nemo for night in seen),
                "nemo_by_haystack": _counted(night.nemo_by_haystack for night in seen),
                "fixed_tolerance_failing_nights": sum(night.fixed_tolerance_fails for night in seen),
                "unpaired_z_failing_nights": sum(night.unpaired_z_fails for night in seen),
                "intervals": len(cells),
                "intervals_with_truth": sum(_holds(cell, -setting.loss) for cell in cells),
                "intervals_above_truth": sum(cell.low is not None and cell.low > -setting.loss for cell in cells),
                "settleable_intervals": sum(_is_settleable(cell) for cell in cells),
                "settleable_intervals_with_truth": sum(
                    _holds(cell, -setting.loss) for cell in cells if _is_settleable(cell)
                ),
            }
        )
    return results


def _counted(words: Iterator[Word]) -> dict[str, int]:
    counts = Counter(words)
    return {word: counts[word] for word in ("pass", "fail", "undecided")}


def _holds(cell: Difference, truth: float) -> bool:
    # With scores of 0 and 1 a bound can be the truth itself but for rounding.
    return cell.low is not None and cell.high is not None and cell.low - 1e-12 <= truth <= cell.high + 1e-12


def _is_settleable(cell: Difference) -> bool:
    """Whether as many haystacks differ as any test needs to reject something; with fewer, coverage must be complete."""
    return cell.differing >= fewest_clusters(POLICY.confidence)


def power(losses: list[float], sizes: list[int], nights: int, seed: int) -> list[dict[str, Any]]:
    """Share of nights on which each rule finds a planted loss: one cell of 10 questions a haystack, score 0.85."""
    table = []
    for size in sizes:
        for loss in losses:
            rng = np.random.default_rng([seed, size, round(1000 * loss)])
            setting = Setting(1, size // 10, 10, icc=0.2, loss=loss, lengths=1)
            seen = [simulate(rng, setting) for _ in range(nights)]
            counts = {
                "fails": sum(night.word == "fail" for night in seen),
                "passes": sum(night.word == "pass" for night in seen),
                "nemo_fails": sum(night.nemo == "fail" for night in seen),
                "nemo_passes": sum(night.nemo == "pass" for night in seen),
                "fixed_tolerance": sum(night.fixed_tolerance_fails for night in seen),
                "unpaired_z": sum(night.unpaired_z_fails for night in seen),
            }
            shares = {name: round(count / nights, 3) for name, count in counts.items()}
            table.append({"samples": size, "loss": loss, **shares})
    return table


def required_samples(setting: Setting, nights: int, seed: int, score: float = 0.85) -> dict[str, Any]:
    """The size `more_samples` names where the truth is known, and the size at which 80% of nights settle."""
    rng = np.random.default_rng([seed, round(1000 * setting.loss), round(10 * setting.icc)])
    known, start = 40_000, 10
    codes = np.repeat(np.arange(known), setting.questions)
    large = paired_difference(*draw(rng, codes, score, setting), codes)
    n = start * setting.questions
    here = replace(
        large, n=n, clusters=start, delta=-setting.loss, se=(large.se or 0.0) * math.sqrt(known / start),
        differing=round(large.differing * start / known), assumed_effect=1.0,
    )  # fmt: skip
    more = more_samples(here, margin=POLICY.margin, confidence=POLICY.confidence, p_factor=1.0)
    if more is None or more.likely is None:
        raise ValueError(f"{setting}: no number of samples settles it")
    named = n + more.likely
    shares = []
    for factor in (0.7, 0.85, 1.0, 1.15, 1.3):
        haystacks = round(factor * named / setting.questions)
        codes = np.repeat(np.arange(haystacks), setting.questions)
        settled = 0
        for _ in range(nights):
            row = paired_difference(*draw(rng, codes, score, setting), codes, margin=POLICY.margin)
            low, high = row.low or 0.0, row.high or 0.0
            settled += high < -POLICY.margin if setting.loss > POLICY.margin else low > -POLICY.margin
        shares.append((haystacks * setting.questions, settled / nights))
    found = _crossing(shares, POWER)
    return {
        "loss": setting.loss,
        "icc": setting.icc,
        "named": named,
        "found": found,
        "named_over_found": None if found is None else round(named / found, 3),
        "settled_at_named": round(shares[2][1], 3),
    }


def _crossing(shares: list[tuple[int, float]], wanted: float) -> int | None:
    """The size at which the share reaches `wanted`, between the sizes tried."""
    for (size, share), (next_size, next_share) in pairwise(shares):
        if share <= wanted <= next_share and next_share > share:
            return round(size + (next_size - size) * (wanted - share) / (next_share - share))
    return None
