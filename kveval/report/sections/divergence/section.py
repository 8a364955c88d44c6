"""Divergence of each variant from the baseline along the same text."""

from __future__ import annotations

from kveval.judge.divergence.of_run import divergences
from kveval.report.section import Section

SECTION = Section("Divergence along a text", 43, lambda run, _: divergences(run) or None, part_of="noise")
