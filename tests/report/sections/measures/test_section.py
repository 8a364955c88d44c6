from __future__ import annotations

from pathlib import Path

from kveval.judge.comparison.judgement import judge_run
from kveval.judge.run_data import load_run
from kveval.report.html.report import build_report
from kveval.report.sections.measures.section import beside_the_score


def test_what_is_counted_is_on_the_page(run: Path) -> None:
    data = load_run(run)
    for records in data.records.values():
        records["metrics"] = [{"ruler": 1.0} for _ in range(len(records))]
    content = beside_the_score(data, judge_run(data))
    assert content is not None
    assert {one.name for one in content.events} == {"out_of_budget"}
    assert {one.name for one in content.metrics} == {"ruler", "budget_used"}
    page = build_report(run).read_text(encoding="utf-8")
    assert "Beside the score" in page
    assert "used up the output budget" in page
