"""Answers asked again: how far they may lie from the earlier ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.trust.earlier import LEVEL, EarlierAnswers
from kveval.run.directory import RunDirectory
from kveval.run.records import ExpectedScore, Record, SampleRow

ROWS = make_samples(lengths=(2048,), haystacks=20, questions=10)
AGAIN = {row.sample_id for row in ROWS[:30]}


SECOND = {"bf16-aa": {"role": "aa", "of": "bf16"}}


def night(path: Path, *, noise: float, seed: int) -> tuple[Path, list[Record]]:
    """Makes a run with an A/A run, and answers of now. All three turn `noise` of the right answers by chance."""
    rng = np.random.default_rng(seed)

    def answers(row: SampleRow, _: np.random.Generator) -> tuple[str, str]:
        right = rng.random() >= noise
        return ("correct", row.doc["answers"][0]) if right else ("wrong", "something else")

    for place in (path, path / "now"):
        make_run(place, samples=ROWS, answers={"bf16": answers, "bf16-aa": answers}, variants=SECOND)
    now = [one for one in RunDirectory(path / "now").records("bf16") if one.sample_id in AGAIN]
    return path, now


def moved(records: list[Record], shift: float, *, noise: float = 0.0, seed: int = 0) -> list[Record]:
    rng = np.random.default_rng(seed)
    found = []
    for record in records:
        score = min(max(0.7 + shift + noise * rng.standard_normal(), 0.0), 1.0)
        expected = ExpectedScore(score=score, unit="probability", temperature=1.0)
        found.append(record.model_copy(update={"expected": expected}))
    return found


def refusal(path: Path, now: list[Record]) -> str | None:
    return EarlierAnswers().compare(path, "bf16", now).refusal


def test_a_steady_engine_is_confirmed_and_an_engine_without_noise_may_not_move_at_all(tmp_path: Path) -> None:
    path, now = night(tmp_path, noise=0.0, seed=0)
    confirmation = EarlierAnswers().compare(path, "bf16", now)
    assert confirmation.refusal is None
    assert (confirmation.haystacks, confirmation.moved.questions, confirmation.moved.differing) == (3, 30, 0)
    assert confirmation.noise is not None
    assert (confirmation.noise.questions, confirmation.noise.differing) == (200, 0)
    other = now[0].model_copy(update={"output": now[0].output + "."})
    assert refusal(path, [other, *now[1:]]) == (
        "1 of 30 questions asked again have another output (none of 200 in the A/A run)"
    )
    turned = now[0].model_copy(update={"outcome": "wrong", "score": 0.0})
    assert refusal(path, [turned, *now[1:]]) == (
        "1 of 30 questions asked again turned right or wrong (none of 200 in the A/A run)"
    )


def test_noise_of_the_engine_is_no_change_in_nine_of_ten_nights(tmp_path: Path) -> None:
    found = [refusal(*night(tmp_path / str(seed), noise=0.1, seed=seed)) for seed in range(30)]
    refused = sum(one is not None for one in found)
    assert refused <= 30 * LEVEL + 3 * math.sqrt(30 * LEVEL * (1 - LEVEL))


@pytest.mark.parametrize("share", [0.6, 0.5])
def test_more_wrong_answers_than_the_noise_makes_are_a_change(tmp_path: Path, share: float) -> None:
    path, _ = night(tmp_path, noise=0.1, seed=1)
    worse = scored(share)
    make_run(tmp_path / "worse", samples=ROWS, answers={"bf16": worse})
    now = [one for one in RunDirectory(tmp_path / "worse").records("bf16") if one.sample_id in AGAIN]
    assert "questions asked again" in str(refusal(path, now))


def rewrite(path: Path, variant: str, records: list[Record]) -> None:
    file = RunDirectory(path).records_path(variant)
    file.write_text("".join(record.model_dump_json() + "\n" for record in records))


@pytest.mark.parametrize(
    ("shift", "spread", "words"),
    [
        (0.0, 0.01, None),
        (-0.02, 0.01, "expected score"),
        (0.02, 0.01, "expected score"),
        (0.0, 0.1, "expected scores moved by"),
    ],
)
def test_expected_scores_may_move_as_in_the_second_run(
    tmp_path: Path, shift: float, spread: float, words: str | None
) -> None:
    path, now = night(tmp_path, noise=0.0, seed=0)
    for seed, name in enumerate(("bf16", "bf16-aa"), start=1):
        rewrite(path, name, moved(list(RunDirectory(path).records(name)), 0.0, noise=0.01, seed=seed))
    found = refusal(path, moved(now, shift, noise=spread, seed=3))
    assert found is None if words is None else words in str(found)


def test_what_has_no_answer_confirms_nothing(tmp_path: Path) -> None:
    path, now = night(tmp_path, noise=0.0, seed=0)
    failed = now[0].model_copy(update={"outcome": "engine_error"})
    assert refusal(path, [failed, *now[1:]]) == "1 of 30 questions asked again have no answer"
    assert refusal(path, []) == "0 of 0 questions asked again have no answer"
    assert "other texts were forced" in str(refusal(path, moved(now, 0.0)))


def test_a_broken_run_is_not_trusted(tmp_path: Path) -> None:
    path, _ = night(tmp_path / "run", noise=0.0, seed=0)
    assert EarlierAnswers().why_not_trusted(path, "bf16") is None
    assert "not a run directory" in str(EarlierAnswers().why_not_trusted(tmp_path, "bf16"))
    lines = (path / "records" / "bf16.jsonl").read_text().splitlines(keepends=True)
    (path / "records" / "bf16.jsonl").write_text("".join(lines[:-1]))
    assert "1 of its 200 records are missing" in str(EarlierAnswers().why_not_trusted(path, "bf16"))
