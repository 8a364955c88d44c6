from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.sections.where.section import scores


def test_charts_of_all_tasks_of_families_with_several_and_of_each_task(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "x", "b": "x", "c": "y"}, haystacks=2, questions=2)
    answers = {"bf16": scored(0.9), "fp8": scored(0.8), "again": scored(0.9)}
    path = make_run(
        tmp_path / "run", samples=samples, answers=answers, variants={"again": {"role": "aa", "of": "bf16"}}
    )
    run = load_run(path)
    found = scores(run, judge_run(run))
    assert [chart.title for chart in found.charts] == ["all tasks", "family x", "a", "b", "c"]
    assert [line.variant for line in found.charts[0].lines] == ["bf16", "fp8"]
    assert {row.scope.level for row in found.rows} == {"overall", "length", "cell"}


def test_the_expected_score_stands_beside_the_greedy_one_with_a_band(tmp_path: Path) -> None:
    samples = make_samples(haystacks=8, questions=2)
    expected = {"bf16": lambda row: 0.5 + int(row.sample_id[:2], 16) / 1000, "fp8": lambda _: 0.4}
    answers = dict.fromkeys(expected, scored(0.9))
    run = load_run(make_run(tmp_path / "run", samples=samples, answers=answers, expected=expected))
    found = scores(run, judge_run(run))
    greedy, probability = found.charts
    assert [greedy.title, probability.title] == ["niah_multikey: greedy", "niah_multikey: expected probability"]
    assert greedy.lines[0].band == ""
    assert len(probability.lines[0].band.split()) == 4
    assert [row.kind for row in found.rows[:2]] == ["greedy", "probability"]


def test_a_task_says_once_why_it_has_no_expected_score(tmp_path: Path) -> None:
    samples = make_samples(tasks={"a": "x", "b": "y"}, haystacks=2, questions=2)
    answers = {"bf16": scored(0.9), "fp8": scored(0.8)}
    manifest = {"without_reference": {"b": "right in many words"}}
    path = make_run(tmp_path / "run", samples=samples, answers=answers, manifest=manifest)
    run = load_run(path)
    assert scores(run, judge_run(run)).greedy_only == ["b has no reference: right in many words"]
    expected = {name: lambda row: 0.5 if row.task == "a" else "none" for name in answers}
    run = load_run(make_run(tmp_path / "b", samples=samples, answers=answers, expected=expected, manifest=manifest))
    assert scores(run, judge_run(run)).greedy_only == ["b has no reference: right in many words"]
