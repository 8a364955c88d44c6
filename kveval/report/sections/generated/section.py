"""Score by the length of the output."""

from __future__ import annotations

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.evidence.output_length import OutputBin, by_output_length
from kveval.judge.run_data import RunData
from kveval.report.section import Section


def generated_section(run: RunData, judgement: Judgement) -> list[OutputBin] | None:
    """Returns the rows of candidates. None if no cell has outputs of unlike lengths."""
    rows = [row for row in by_output_length(run, confidence=judgement.policy.confidence) if row.difference is not None]
    bins = {scope: {row.first for row in rows if row.scope == scope} for scope in {row.scope for row in rows}}
    return [row for row in rows if len(bins[row.scope]) > 1] or None


SECTION = Section("By length of the output", 26, generated_section, part_of="where")
