"""What the plan could show, as it was said before the first launch."""

from __future__ import annotations

from kveval.judge.prediction.prediction import read_prediction
from kveval.report.section import Section

SECTION = Section("What the plan could show", 55, lambda run, _: read_prediction(run.path), link="Plan")
