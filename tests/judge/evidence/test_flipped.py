"""The samples that only the baseline or only the variant got right."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.evidence.flipped import flipped_samples
from kveval.judge.run_data import RunData, load_run


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    samples = make_samples(tasks={"b": "x", "a": "x"}, haystacks=6, questions=5)
    variants = {"bf16-aa": {"role": "aa", "of": "bf16"}, "fp8-control": {"role": "control", "of": "fp8"}}
    answers = {"bf16": scored(0.7), "fp8": scored(0.5), "fp8-control": scored(0.7), "bf16-aa": scored(0.7)}
    covered = {"aa_sample_ids": [row.sample_id for row in samples[::2]]}
    return load_run(make_run(tmp_path / "run", samples=samples, answers=answers, variants=variants, manifest=covered))


def test_exactly_the_samples_whose_correctness_differs(run: RunData) -> None:
    ours, theirs = (run.records[name]["outcome"] == "correct" for name in ("bf16", "fp8"))
    flipped = list(flipped_samples(run, run.manifest.variants["fp8"]))
    assert {flip.sample_id for flip in flipped} == set(ours.index[ours != theirs.reindex(ours.index)])
    for flip in flipped:
        assert (flip.direction == "lost") == (flip.baseline_outcome == "correct") == (flip.candidate_score < 1)


def test_losses_come_first_then_tasks_and_lengths(run: RunData) -> None:
    flipped = list(flipped_samples(run, run.manifest.variants["fp8"]))
    keys = [(flip.direction == "gained", flip.task, flip.context_length) for flip in flipped]
    assert keys == sorted(keys)


def test_noise_and_control_stand_beside_each(run: RunData) -> None:
    for flip in flipped_samples(run, run.manifest.variants["fp8"]):
        assert flip.control_outcome is not None
        if flip.aa_flipped is not None:
            assert flip.aa_flipped == ((flip.aa_outcome == "correct") != (flip.baseline_outcome == "correct"))
