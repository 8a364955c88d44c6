from __future__ import annotations

from kveval.judge.statistics.clusters import mean_score
from kveval.report.html.charts import score_chart


def test_points_stand_by_length_and_score_with_their_interval() -> None:
    scores = {share: mean_score([1] * share + [0] * (100 - share), range(100)) for share in (90, 50)}
    chart = score_chart("t", {"bf16": [(4096, scores[90]), (1024, scores[50])], "x": []}, {"bf16": 0, "x": 1})
    first, second = chart.lines[0].points
    assert first.x < second.x
    assert first.y > second.y
    assert second.high_y is not None
    assert second.low_y is not None
    assert second.high_y < second.y < second.low_y
    assert [label for _, label in chart.x_ticks] == ["1K", "4K"]
    assert chart.lines[1].path == ""
