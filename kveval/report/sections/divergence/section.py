"""Divergence of each variant from the baseline along the same text."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.divergence.of_run import VariantDivergence, divergences
from kveval.judge.run_data import RunData
from kveval.report.html.charts import Chart
from kveval.report.section import Section
from kveval.report.sections.divergence.chart import position_chart

_TITLES = {"output": "Along the baseline's own output", "text": "Along the texts that were given"}


@dataclass(frozen=True, slots=True)
class KindOfText:
    """All variants along texts of one kind.

    Attributes:
        chart: mean KLD by position. None if there is too little to draw.
        has_aa: whether the baseline's second run was measured too.
    """

    title: str
    rows: tuple[VariantDivergence, ...]
    chart: Chart | None
    has_aa: bool


def kinds_of_text(run: RunData, _: Judgement) -> list[KindOfText] | None:
    """Returns the tables of the section. None if no text was to be forced."""
    found = divergences(run)
    # An A/A run has the colour of the baseline, which no line of this section shows.
    others = [variant.name for variant in run.baseline_first if variant.role != "aa"]
    styles = {name: others.index(name) if name in others else 0 for name in run.manifest.variants}
    kinds = []
    for kind, title in _TITLES.items():
        rows = tuple(row for row in found if row.kind == kind)
        if rows:
            chart = position_chart("mean KLD up to a position, in nats ± error", rows, styles)
            has_aa = any(row.role == "aa" and row.summary is not None for row in rows)
            kinds.append(KindOfText(title, rows, chart, has_aa))
    return kinds or None


SECTION = Section("Divergence along a text", 43, kinds_of_text, part_of="noise")
