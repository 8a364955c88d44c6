"""What the engine counted while a variant's samples were asked, and what that says about the variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kveval.engines.speculation import with_drafts_judged
from kveval.engines.variants import ResolvedVariant
from kveval.measure.records import with_failed_scorers
from kveval.measure.sharing import with_sharing_judged
from kveval.run.manifest import VariantRun
from kveval.run.records import Record


@dataclass(frozen=True, slots=True)
class Counted:
    """What happened during the asking phase of one launch.

    Attributes:
        added: how much each counter of the engine rose.
        planned_hit_tokens: prompt tokens that should have come from the prefix cache.
    """

    added: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    planned_hit_tokens: int = 0

    @classmethod
    def between(
        cls, before: Mapping[str, float], after: Mapping[str, float], seconds: float, planned_hit_tokens: int
    ) -> Counted:
        added = {name: value - before.get(name, 0.0) for name, value in after.items()}
        return cls(added, seconds, planned_hit_tokens)

    def changes(self, variant: ResolvedVariant, current: VariantRun, records: Iterable[Record]) -> dict[str, Any]:
        """Returns the changed fields of `current`: totals over all launches, and the findings that follow from them."""
        names = current.counters.keys() | self.added.keys()
        totals = {name: current.counters.get(name, 0.0) + self.added.get(name, 0.0) for name in names}
        planned = current.planned_hit_tokens + self.planned_hit_tokens
        findings = with_drafts_judged(variant, current.findings, totals)
        findings = with_sharing_judged(current.facts, findings, totals, planned)
        return {
            "counters": totals,
            "planned_hit_tokens": planned,
            "asking_seconds": round(current.asking_seconds + self.seconds, 3),
            "findings": with_failed_scorers(findings, records),
        }
