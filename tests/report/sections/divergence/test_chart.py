"""The chart shows where along a text the divergence is, from 0 upwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.divergences import add_divergence
from support.make_run import GOOD, make_run, make_samples, scored

from kveval.judge.divergence.estimate import Estimate
from kveval.judge.divergence.of_run import VariantDivergence, divergences
from kveval.judge.run_data import load_run
from kveval.report.sections.divergence.chart import position_chart

STYLES = {"same": 1, "bf16-aa": 0, "lost": 2}


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, VariantDivergence]:
    run = make_run(
        tmp_path / "run",
        samples=make_samples(haystacks=3, questions=2),
        answers={**GOOD, "bf16-aa": scored(0.9)},
        variants={"bf16-aa": {"role": "aa", "of": "bf16"}},
    )
    add_divergence(run, {"same": 0.2, "bf16-aa": 0.0}, growth=4.0)
    return {row.variant: row for row in divergences(load_run(run)) if row.summary}


def test_lines_stand_by_position_and_divergence(rows: dict[str, VariantDivergence]) -> None:
    chart = position_chart("t", list(rows.values()), STYLES)
    assert chart is not None
    lines = {line.variant: line for line in chart.lines}
    first, second, third = lines["same"].points
    assert first.x < second.x < third.x
    assert first.y > second.y > third.y
    assert first.low_y is not None
    assert first.high_y is not None
    assert first.high_y < first.y < first.low_y <= chart.bottom
    assert [label for _, label in chart.x_ticks] == ["16", "64", "100"]
    assert {point.y for point in lines["bf16-aa"].points} == {chart.y_ticks[0][0]}
    assert chart.y_ticks[0][1] == "0"
    assert first.label.startswith("same, tokens 1 to 16: 0.")
    assert first.label.endswith("nats, 128 tokens in 8 contexts")


def test_a_range_that_is_not_finite_has_no_point(rows: dict[str, VariantDivergence]) -> None:
    one = rows["same"]
    nothing = Estimate(None, None, "not finite: 1 token")
    second = replace(one.by_position[1], kld_mean=nothing)
    broken = replace(one, by_position=(one.by_position[0], second, one.by_position[2]))
    chart = position_chart("t", [broken], STYLES)
    assert chart is not None
    assert len(chart.lines[0].points) == 2
    assert position_chart("t", [replace(one, by_position=(second, second))], STYLES) is None


def test_one_range_is_no_chart(rows: dict[str, VariantDivergence]) -> None:
    one = rows["same"]
    assert position_chart("t", [replace(one, by_position=one.by_position[:1])], STYLES) is None
    assert position_chart("t", [], STYLES) is None


@pytest.mark.parametrize(
    ("highest", "top"), [(0.0, "0.001"), (0.0009, "0.001"), (0.03, "0.032"), (0.081, "0.1"), (0.21, "0.24"), (1.0, "1")]
)
def test_the_axis_ends_at_a_round_number(rows: dict[str, VariantDivergence], highest: float, top: str) -> None:
    one = rows["same"]
    ranges = tuple(replace(part, kld_mean=Estimate(highest, None)) for part in one.by_position)
    chart = position_chart("t", [replace(one, by_position=ranges)], STYLES)
    assert chart is not None
    assert chart.y_ticks[-1][1] == top
