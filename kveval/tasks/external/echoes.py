"""Finds rows of the user's own prompts whose question names the answer: repeating the question would name it too."""

from __future__ import annotations

from collections.abc import Iterable

from kveval.run.facts import Finding
from kveval.tasks.external.row_scorers import SCORERS, echo_is_right
from kveval.tasks.sample import Sample

_NAMED = 5


def echo_findings(samples: Iterable[Sample]) -> list[Finding]:
    """Returns at most one finding for each of: scorers that count such a repetition, and scorers that do not."""
    rows: dict[bool, list[Sample]] = {}
    for sample in samples:
        if "scorer" in sample.doc and sample.doc.get("scored", True) and echo_is_right(sample.doc):
            rows.setdefault(SCORERS[sample.doc["scorer"]].counts_echoes, []).append(sample)
    return [_finding(found, counts=counts) for counts, found in rows.items()]


def _finding(rows: list[Sample], *, counts: bool) -> Finding:
    named = ", ".join(str(sample.doc["source"]) for sample in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    scorers = ", ".join(sorted({str(sample.doc["scorer"]) for sample in rows}))
    found = f"rows whose question names their answer: {len(rows)} ({named}{more})"
    if counts:
        message = (
            f"{found}. Scorer {scorers} counts an output that only repeats the question as right; use: exact, or a "
            "question that does not name the answer"
        )
        return Finding.warning("echo_is_right", message)
    return Finding.info(
        "question_names_answer", f"{found}. Scorer {scorers} does not count a repetition of it as right"
    )
