"""What the prefix cache changes, for the report and the terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kveval.judge.evidence.cold import ColdComparison, cold_comparisons
from kveval.judge.run_data import RunData
from kveval.report.section import Section

# What follows is in the run directory's cold/.
_DIFFERENCES_SHOWN = 20


def cold_table(run: RunData) -> list[dict[str, Any]]:
    """One row per variant: the fields of `ColdComparison`, of its differences the first 20."""
    return [_row(check) for check in cold_comparisons(run)]


def _row(check: ColdComparison) -> dict[str, Any]:
    return {
        **asdict(check),
        "finding": check.finding.model_dump() if check.finding else None,
        "differences": [asdict(difference) for difference in check.differences[:_DIFFERENCES_SHOWN]],
        "more_differences": max(len(check.differences) - _DIFFERENCES_SHOWN, 0),
    }


def cold_label(row: dict[str, Any]) -> str:
    """One row in one line: what came from the cache, and what changed without it."""
    parts = []
    if row["hit_share"] is not None:
        parts.append(
            f"{row['hit_share']:.0%} of prompt tokens from the prefix cache, planned {row['planned_share']:.0%}"
        )
    if row["asked"]:
        parts.append(
            f"asked without it: {row['identical']} of {row['n']} outputs identical, "
            f"{row['lost']} lost, {row['gained']} gained{_uncompared(row)}"
        )
    return "; ".join(parts)


def _uncompared(row: dict[str, Any]) -> str:
    reasons = {
        "unanswered": row["unanswered"],
        "not cold the second time": row["not_cold"],
        "cold the first time": row["not_warm"],
    }
    said = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f" ({said})" if said else ""


SECTION = Section("With and without the prefix cache", 41, lambda run, _: cold_table(run) or None, part_of="noise")
