from __future__ import annotations

from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.html.report import build_report
from kveval.report.sections.steps.section import step_section
from kveval.run.directory import RunDirectory


def test_a_run_with_chains_has_a_chart_for_each_cell_and_others_have_none(tmp_path: Path) -> None:
    samples = make_samples(tasks={"trace_walk": "reasoning"}, lengths=(2048,), haystacks=8, questions=2)
    path = make_run(tmp_path / "run", samples=samples, answers={"bf16": scored(0.9), "int2": scored(0.9)})
    run = load_run(path)
    assert step_section(run, judge_run(run)) is None
    for name, right in (("bf16", 4), ("int2", 2)):
        directory = RunDirectory(path)
        update = {"steps": [k < right for k in range(4)], "step_tokens": [7, 14, 21, None]}
        lines = [record.model_copy(update=update).model_dump_json() for record in directory.records(name)]
        directory.records_path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = load_run(path)
    curves = step_section(run, judge_run(run))
    [chart] = curves.charts
    assert [line.variant for line in chart.lines] == ["bf16", "int2"]
    assert [label for _, label in chart.x_ticks] == ["1", "2", "3", "4"]
    page = build_report(path, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "trace_walk at 2K: right steps, by step" in page
    assert "-100.0" in page
