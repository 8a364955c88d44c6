"""Runs whose haystacks are asked in turn, and whose servers may break at some moment."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from kveval.judge.run_data import RunData, load_run
from kveval.run.records import Outcome, SampleRow
from support.make_run import Answer, make_run, make_samples, scored

Rows = list[SampleRow]


def asked_in_turn(haystacks: int = 12, questions: int = 10) -> Rows:
    """Samples of two lengths, their haystacks in a random order."""
    rows = make_samples(haystacks=haystacks, questions=questions, lengths=(2048, 8192))
    whole = [list(group) for _, group in groupby(rows, key=lambda row: (row.context_length, row.haystack_id))]
    random.Random(7).shuffle(whole)
    return [row for group in whole for row in group]


def breaking(rows: Rows, since: float, until: float = 1.0, *, of: Answer | None = None) -> Answer:
    """Answers garbage between two shares of the questions."""
    place = {row.sample_id: number / len(rows) for number, row in enumerate(rows)}
    good = of or scored(0.9)

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return ("wrong", "the the the") if since <= place[row.sample_id] < until else good(row, rng)

    return answer


def night(
    folder: Path,
    rows: Rows,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    **answers: Callable[..., Any],
) -> RunData:
    """Makes a run of bf16 and of what `answers` name, with an A/A run if one is called aa."""
    named = {name.replace("_", "-"): answer for name, answer in answers.items()}
    own = {"bf16-aa": {"role": "aa", "of": "bf16"}} if "bf16-aa" in named else {}
    return load_run(
        make_run(
            folder / "run", samples=rows, answers={"bf16": scored(0.9), **named}, variants={**own, **(variants or {})}
        )
    )
