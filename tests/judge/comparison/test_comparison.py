"""One comparison: floors and ceilings, noise and attribution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.judgement import judge, losing, overall
from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.headline import headlines
from kveval.judge.evidence.flipped import flipped_samples
from kveval.judge.run_data import load_run
from kveval.run.records import Outcome, SampleRow


def test_floor_and_ceiling_carry_no_pass(tmp_path: Path) -> None:
    samples = make_samples(tasks={"easy": "needle", "hard": "needle", "good": "needle"}, lengths=(2048,))
    shares = {"easy": 1.1, "hard": -0.1, "good": 0.8}

    def answer(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return scored(shares[row.task])(row, rng)

    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": answer, "fp8": answer})
    judgement = judge(path)
    cells = {c.scope.task: c for c in judgement.of("fp8", "cell")}
    verdicts = {task: c.verdict.word for task, c in cells.items() if c.verdict}
    assert verdicts == {"easy": "undecided", "hard": "undecided", "good": "pass"}
    assert cells["easy"].insensitive_cells == (
        "easy at 2,048 tokens: too easy: the baseline gets nearly everything right (100.0)",
    )
    assert cells["hard"].insensitive_cells == (
        "hard at 2,048 tokens: too hard: the baseline gets nearly nothing right (0.0)",
    )
    pooled = overall(judgement, "fp8")
    assert pooled.difference.n == 900
    assert pooled.sensitive.n == 300


def test_a_control_divides_the_loss(tmp_path: Path) -> None:
    path = make_run(
        tmp_path / "run",
        answers={"bf16": scored(0.91), "fp8": scored(0.853), "fp8-control": scored(0.913)},
        variants={"fp8-control": {"role": "control", "of": "fp8"}},
    )
    judgement = judge(path)
    found = overall(judgement, "fp8").attribution
    assert found is not None
    assert found.control == "fp8-control"
    assert found.format.delta is not None
    assert found.kernel.delta is not None
    assert found.total.delta == pytest.approx(found.format.delta + found.kernel.delta)
    assert abs(found.format.delta) < 0.02
    assert found.kernel.high is not None
    assert found.kernel.high < 0
    assert overall(judgement, "fp8-control").verdict is None
    assert [h.variant for h in headlines(judgement)] == ["fp8"]


def test_noise_stands_beside_over_the_samples_of_the_second_run(tmp_path: Path) -> None:
    samples = make_samples()
    covered = [row.sample_id for row in samples[::3]]

    def again(row: SampleRow, rng: np.random.Generator) -> tuple[Outcome, str] | None:
        return losing(0.05, scored(0.9))(row, rng) if row.sample_id in covered else None

    path = make_run(
        tmp_path / "run",
        samples=samples,
        answers={"bf16": scored(0.9), "fp8": losing(0.5, scored(0.9)), "bf16-aa": again},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
        manifest={"aa_sample_ids": covered},
    )
    judgement = judge(path)
    fp8 = overall(judgement, "fp8")
    assert fp8.noise is not None
    assert fp8.noise.n == 200
    assert 0 < fp8.noise.aa.lost < 25 < fp8.noise.candidate.lost < fp8.flips.lost
    assert fp8.noise.aa_identical == pytest.approx(1 - fp8.noise.aa.lost / 200)
    aa = overall(judgement, "bf16-aa")
    assert (aa.asked, aa.verdict) == (200, None)

    run = load_run(path)
    flipped = list(flipped_samples(run, run.manifest.variants["fp8"]))
    assert len(flipped) == fp8.flips.lost
    assert {f.direction for f in flipped} == {"lost"}
    assert {f.aa_flipped is not None for f in flipped} == {True, False}
    assert all((f.aa_flipped is not None) == (f.sample_id in covered) for f in flipped)
