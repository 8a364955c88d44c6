"""Answers that lose or fail, and short ways to a judgement."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kveval.judge.comparison.comparison import Comparison
from kveval.judge.comparison.judgement import Judgement, judge_run
from kveval.judge.run_data import load_run
from kveval.run.records import Outcome, SampleRow
from support.make_run import Answer


def losing(share: float, of: Answer) -> Answer:
    """Answers as `of`, but wrong on `share` of its correct samples."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        given = of(row, rng)
        lost = rng.random() < share
        return ("wrong", "lost") if given and given[0] == "correct" and lost else given

    return answer


def failing(share: float, of: Answer) -> Answer:
    """Answers as `of`, but with an engine error on `share` of the samples."""

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return ("engine_error", "") if rng.random() < share else of(row, rng)

    return answer


def absent(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
    return None


def judge(path: Path) -> Judgement:
    return judge_run(load_run(path))


def overall(judgement: Judgement, variant: str) -> Comparison:
    return judgement.of(variant, "overall")[0]


def words(judgement: Judgement, variant: str) -> set[str]:
    return {c.verdict.word for c in judgement.comparisons if c.variant == variant and c.verdict}
