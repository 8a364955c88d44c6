"""What the engine counted while a variant's samples were asked, and what that says about the variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kveval.engines.counter_log import CounterLog
from kveval.engines.speculation import with_drafts_judged
from kveval.engines.variants import ResolvedVariant
from kveval.measure.haystacks import group_by_haystack
from kveval.measure.watch.answers import with_answers_judged
from kveval.run.facts import Facts, Finding, with_findings
from kveval.run.manifest import VariantRun
from kveval.tasks.sample import Sample

# Share of the planned hits. Evictions and a haystack that is primed twice cost some hits, but not half of them.
_LEAST_SHARE = 0.5
_HISTORY = (
    "counters_reset",
    "metrics_lost",
    "metrics_unreadable",
    "facts_changed_before",
    "answers_reused",
    "answers_not_reused",
)
_CODES = ("no_prefix_hits", "prefix_hits_below_plan")


@dataclass(frozen=True, slots=True)
class Counted:
    """What happened during the asking phase of one launch.

    Attributes:
        log: the counters of the engine.
        planned_hit_tokens: prompt tokens that should have come from the prefix cache.
    """

    log: CounterLog = field(default_factory=CounterLog)
    seconds: float = 0.0
    planned_hit_tokens: int = 0

    def changes(self, variant: ResolvedVariant, current: VariantRun, answers: Iterable[Finding]) -> dict[str, Any]:
        """Returns the changed fields of `current`: totals over all launches, and the findings that follow from them.

        Args:
            answers: what `answer_findings` says.
        """
        added = self.log.added
        names = (current.counters.keys() | added.keys()) - self.log.unreadable
        totals = {name: current.counters.get(name, 0.0) + added.get(name, 0.0) for name in names}
        planned = current.planned_hit_tokens + self.planned_hit_tokens
        findings = with_findings(current.findings, self.log.findings())
        findings = with_drafts_judged(variant, findings, totals)
        # Counters with a gap count fewer hits than there were.
        if self.log.is_continuous:
            findings = _with_sharing_judged(current.facts, findings, totals, planned)
        return {
            "counters": totals,
            "planned_hit_tokens": planned,
            "asking_seconds": round(current.asking_seconds + self.seconds, 3),
            "findings": with_answers_judged(findings, answers),
        }


def past_findings(current: VariantRun) -> list[Finding]:
    """Returns the findings of a variant, with those that were about a change of its server put into the past."""
    if not current.facts_changed:
        return current.findings
    changes = "; ".join(f"{one.name} from {one.before} to {one.after}" for one in current.facts_changed)
    first = current.facts_changed[0]
    message = (
        f"the server changed by answer {first.at_question} ({first.at}): {changes}. What it answered since the reading "
        "before was set aside and asked again"
    )
    return with_findings(current.findings, [Finding.warning("facts_changed_before", message)])


def kept_findings(current: VariantRun) -> list[Finding]:
    """Returns what earlier launches of a variant found that stays true when it is launched again."""
    return [finding for finding in past_findings(current) if finding.code in _HISTORY]


def planned_hit_tokens(samples: Iterable[Sample], block_size: int, prefills: int = 1) -> int:
    """Returns the prompt tokens that come from the cache if every haystack is prefilled so often, in whole blocks."""
    return sum(
        (group.shared_tokens // block_size * block_size) * max(len(group.samples) - prefills, 0)
        for group in group_by_haystack(samples)
    )


def _with_sharing_judged(
    facts: Facts, findings: Iterable[Finding], counters: Mapping[str, float], planned: int
) -> list[Finding]:
    """Adds a warning if far fewer prompt tokens came from the cache than planned. Without its counters it adds none."""
    others = [finding for finding in findings if finding.code not in _CODES]
    hits, asked = counters.get("prefix_cache_hits"), counters.get("prefix_cache_queries")
    caches = facts.prefix_caching is not False
    if not caches or hits is None or not asked or hits >= _LEAST_SHARE * planned:
        return others
    message = (
        f"{hits:,.0f} of {asked:,.0f} prompt tokens came from the prefix cache ({hits / asked:.1%}), planned were "
        f"{planned:,} ({planned / asked:.1%}): haystacks were prefilled more than once"
    )
    return [*others, Finding.warning(_CODES[bool(hits)], message)]
