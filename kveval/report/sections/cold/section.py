"""What the prefix cache changes: samples asked once more without it."""

from __future__ import annotations

from kveval.judge.evidence.cold import cold_comparisons
from kveval.report.section import Section

SECTION = Section(
    "With and without the prefix cache", 41, lambda run, _: cold_comparisons(run) or None, part_of="noise"
)
