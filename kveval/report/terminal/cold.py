"""What the prefix cache changes, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from kveval.judge.evidence.cold import ColdComparison
from kveval.report.terminal.layout import indented
from kveval.report.text import visible


def cold_lines(check: ColdComparison) -> Iterator[RenderableType]:
    """Shows what came from the prefix cache, what changed without it, and the finding if there is one."""
    yield Text.assemble((visible(check.variant), "bold"), f": {cold_label(check)}")
    if check.finding:
        yield indented(f"{check.finding.level}: {check.finding.message}", style="yellow")


def cold_label(check: ColdComparison) -> str:
    """Says what came from the prefix cache, and how many outputs are the same without it."""
    parts = []
    if check.hit_share is not None:
        parts.append(f"{check.hit_share:.0%} of prompt tokens from the prefix cache, planned {check.planned_share:.0%}")
    if check.asked:
        parts.append(
            f"asked again without it: {check.identical} of {check.n} outputs identical, "
            f"{check.lost} lost, {check.gained} gained{_not_compared(check)}"
        )
    return "; ".join(parts)


def _not_compared(check: ColdComparison) -> str:
    reasons = {
        "unanswered": check.unanswered,
        "not cold the second time": check.not_cold,
        "cold the first time": check.not_warm,
    }
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f" (not compared: {listed})" if listed else ""
