"""What is counted beside the score, by variant, with its difference from the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from kveval.judge.comparison.judgement import Judgement
from kveval.judge.evidence.measures import EVENT_WORDS, Measure, event_findings, measures
from kveval.judge.run_data import RunData
from kveval.report.section import Section
from kveval.run.facts import Finding


@dataclass(frozen=True, slots=True)
class Content:
    """Holds the two tables: events by variant, length and family, and metrics by variant and cell."""

    events: list[Measure]
    metrics: list[Measure]
    findings: list[Finding]
    words: dict[str, str]
    confidence: float


def beside_the_score(run: RunData, judgement: Judgement) -> Content | None:
    """Returns what the section shows. None if nothing was counted."""
    confidence = judgement.policy.confidence
    found = measures(run, confidence=confidence)
    if not found:
        return None
    return Content(
        [one for one in found if one.is_event],
        [one for one in found if not one.is_event],
        event_findings(found, baseline=run.manifest.baseline, confidence=confidence),
        dict(EVENT_WORDS),
        confidence,
    )


SECTION = Section("Beside the score", 24, beside_the_score, part_of="where")
