"""Checks that the prefix cache did what the plan expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kveval.measure.haystacks import group_by_haystack
from kveval.run.facts import Facts
from kveval.run.findings import Finding
from kveval.tasks.sample import Sample

# Share of the planned hits. Evictions and a haystack that is primed twice cost some hits, but not half of them.
_LEAST_SHARE = 0.5
_CODES = ("no_prefix_hits", "prefix_hits_below_plan")


def planned_hit_tokens(samples: Iterable[Sample], block_size: int) -> int:
    """Returns the prompt tokens that come from the cache if every haystack is prefilled once, in whole blocks."""
    return sum(
        (group.shared_tokens // block_size * block_size) * (len(group.samples) - 1)
        for group in group_by_haystack(samples)
    )


def with_sharing_judged(
    facts: Facts, findings: Iterable[Finding], counters: Mapping[str, float], planned: int
) -> list[Finding]:
    """Adds a warning if far fewer prompt tokens came from the cache than planned.

    Args:
        counters: the engine's counters over the asking phase. Without those of the prefix cache nothing is judged.
        planned: `planned_hit_tokens` of that phase.
    """
    others = [finding for finding in findings if finding.code not in _CODES]
    hits, asked = counters.get("prefix_cache_hits"), counters.get("prefix_cache_queries")
    caches = facts.prefix_caching is not False
    if not caches or hits is None or not asked or hits >= _LEAST_SHARE * planned:
        return others
    message = (
        f"{hits:,.0f} of {asked:,.0f} prompt tokens came from the prefix cache ({hits / asked:.1%}), planned were "
        f"{planned:,} ({planned / asked:.1%}): haystacks were prefilled more than once"
    )
    return [*others, Finding(level="warning", code=_CODES[bool(hits)], message=message)]
