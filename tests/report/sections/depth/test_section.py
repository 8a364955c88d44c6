from __future__ import annotations

from pathlib import Path

import pytest
from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sections.depth.section import depth_heatmaps, depths


def test_heatmaps_show_what_both_answered(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "x", "b": "x"}, haystacks=10, questions=5)
    answers = {"bf16": scored(0.7), "fp8": scored(0.4), "int8": scored(0.75)}
    run = load_run(make_run(tmp_path / "run", samples=samples, answers=answers))
    maps = depth_heatmaps(run)
    assert [one.title for one in maps] == ["bf16", "fp8", "fp8 - bf16, points", "int8", "int8 - bf16, points"]
    bf16, fp8, difference = maps[:3]
    assert bf16.columns == ("2K", "8K")
    for row in range(5):
        for column in range(2):
            ours, theirs, delta = (one.rows[row][1][column] for one in (bf16, fp8, difference))
            assert ours is not None
            assert theirs is not None
            assert delta is not None
            assert delta.value == pytest.approx(theirs.value - ours.value)
            assert delta.n == ours.n == 20
    assert [cell.colour for cell in difference.rows[0][1] if cell] != ["d0", "d0"]


def test_without_depths_there_is_no_section(tmp_path: Path) -> None:
    samples = [row.model_copy(update={"depth_percent": None}) for row in make_samples(haystacks=2)]
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "fp8": scored(0.9)})
    run = load_run(path)
    assert depths(run, judge_run(run)) is None
