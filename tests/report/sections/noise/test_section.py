from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sections.noise.section import noise_rows


def test_rows_stand_beside_the_second_run_of_the_baseline(tmp_path: Path) -> None:
    answers = {"bf16": scored(0.9), "fp8": scored(0.6), "again": scored(0.9)}
    for name, variants in (("with", {"again": {"role": "aa", "of": "bf16"}}), ("without", {})):
        run = load_run(make_run(tmp_path / name, samples=make_samples(haystacks=4), answers=answers, variants=variants))
        rows = noise_rows(run, judge_run(run))
        assert [str(row.scope) for row in rows] == (["2,048 tokens", "8,192 tokens", "overall"] if variants else [])
        assert all(row.noise is not None and row.noise.aa_identical == 1.0 for row in rows)
