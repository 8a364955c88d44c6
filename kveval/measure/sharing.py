"""Whether the prefix cache did what the plan meant it to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kveval.measure.haystacks import group_by_haystack
from kveval.run.facts import Facts
from kveval.run.findings import Finding
from kveval.tasks.sample import Sample

# Of the planned hits. Evictions and a haystack that is primed twice cost some; half of them is another matter.
_LEAST_SHARE = 0.5
_CODES = ("no_prefix_hits", "prefix_hits_below_plan")


def planned_hit_tokens(samples: Iterable[Sample], block_size: int) -> int:
    """Prompt tokens that come from cache when every haystack is prefilled once: whole blocks of its shared part."""
    return sum(
        (group.shared_tokens // block_size * block_size) * (len(group.samples) - 1)
        for group in group_by_haystack(samples)
    )


def with_sharing_judged(
    facts: Facts, findings: Iterable[Finding], counters: Mapping[str, float], planned: int
) -> list[Finding]:
    """`findings` with a warning where far fewer prompt tokens came from cache than planned.

    Args:
        counters: the engine's, over the asking phase; without those of the prefix cache nothing is judged.
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
