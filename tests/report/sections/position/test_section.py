from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.make_run import make_run, make_samples, scored

from kveval.judge.run_data import load_run
from kveval.report.sections.position.section import QUARTERS, quarter_heatmaps


def test_only_tasks_with_scores_of_quarters_have_a_map(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", samples=make_samples(lengths=(2048,), haystacks=2), answers={"bf16": scored(0.9)})
    run = load_run(path)
    assert quarter_heatmaps(run) == []
    metrics = dict(zip(QUARTERS, (1.0, 1.0, 0.5, 0.0), strict=True))
    records = run.records["bf16"].assign(metrics=[metrics] * len(run.records["bf16"]))
    (heatmap,) = quarter_heatmaps(replace(run, records={"bf16": records}))
    ((label, cells),) = heatmap.rows
    assert label == "bf16, 2K"
    assert [cell.value for cell in cells if cell] == [1.0, 1.0, 0.5, 0.0]
