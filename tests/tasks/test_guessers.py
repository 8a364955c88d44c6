"""What every shipped task gives to who knows everything, to who never saw the context, and to who knows its values."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from statistics import fmean

import pytest
from support import ROOT
from support.families import ShippedTasks, build
from support.guessers import BLIND, oracle, planted, values, written

from kveval.tasks.sample import Sample
from kveval.tasks.task_files import list_tasks

ROWS = re.findall(
    r"^\| `(\w+)` \|.*\| ([\d.]+) \| ([\d.]+) \| [^|]* \|$",
    (ROOT / "tasks" / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
STATED = {name: (float(blind), float(guess)) for name, blind, guess in ROWS}
NAMES = [info.name for info in list_tasks()]
DRAWS = 5

Score = Callable[[Sample, str], float]


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def samples(tasks: ShippedTasks, name: str) -> list[Sample]:
    return build(tasks[name], 4096, samples=20, questions=10, seed=3)


@pytest.fixture(scope="module")
def score(tasks: ShippedTasks, name: str) -> Score:
    return lambda sample, answer: float(tasks[name].score(sample.doc, answer)["score"])


def is_no_more(scores: list[float], stated: float) -> bool:
    """Says whether the mean is at most what is stated, but for chance (3 standard errors of a share)."""
    return fmean(scores) <= stated + 3 * math.sqrt(stated * (1 - stated) / len(scores))


def test_an_oracle_is_right(samples: list[Sample], score: Score) -> None:
    assert {score(sample, oracle(sample)) for sample in samples} == {1.0}


def test_nobody_who_has_not_seen_the_context_beats_the_stated_rate(
    tasks: ShippedTasks, name: str, samples: list[Sample], score: Score
) -> None:
    stated = STATED[name][0]
    for said in BLIND:
        assert is_no_more([score(sample, said) for sample in samples], stated), said
    assert is_no_more([score(sample, sample.doc["question"]) for sample in samples], stated)
    # Documents and functions are real, so another seed may ask the same question.
    elsewhere = build(tasks[name], 4096, samples=20, questions=10, seed=4)
    pairs = [(a, b) for a, b in zip(samples, elsewhere, strict=True) if a.doc["question"] != b.doc["question"]]
    assert len(pairs) >= 10
    assert is_no_more([score(sample, oracle(other)) for sample, other in pairs], stated)


def test_naming_planted_values_gets_no_more_than_the_stated_rate(
    name: str, samples: list[Sample], score: Score
) -> None:
    draw, stated = random.Random(0), STATED[name][1]
    haystacks: dict[str, list[Sample]] = {}
    for sample in samples:
        haystacks.setdefault(sample.haystack_id, []).append(sample)
    known = {haystack_id: planted(haystack) for haystack_id, haystack in haystacks.items()}
    guessed = [
        score(sample, written(sample, draw.sample(pool, min(len(pool), len(values(sample))))))
        for sample in samples
        for pool in [known[sample.haystack_id]]
        for _ in range(DRAWS)
    ]
    assert is_no_more(guessed, stated)
    # Naming everything in random order is no way around it.
    everything = [
        score(sample, written(sample, draw.sample(pool, len(pool))))
        for sample in samples
        for pool in [known[sample.haystack_id]]
    ]
    assert is_no_more(everything, stated)


def test_every_task_states_its_rates() -> None:
    assert set(STATED) == set(NAMES)
