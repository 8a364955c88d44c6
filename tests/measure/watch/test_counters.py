"""What the engine counted while a variant was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import variants
from support.samples import sample
from support.scripted import Oracle, ScriptedEngines
from support.sweeps import Planner, run

from kveval.engines.counter_log import CounterLog
from kveval.measure.watch.counters import Counted, planned_hit_tokens
from kveval.run.facts import Facts, Finding
from kveval.run.manifest import VariantRun


async def test_hits_are_what_the_plan_says(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(questions_per_haystack=6)
    engines = ScriptedEngines(Oracle(plan))
    manifest = await run(plan, tmp_path / "run", engines)
    for variant in manifest.variants.values():
        shared = len(plan.samples[0].prompt.shared) // 16 * 16
        assert variant.planned_hit_tokens == 5 * shared > 0
        assert variant.counters["prefix_cache_hits"] >= variant.planned_hit_tokens
        assert "prefix" not in " ".join(finding.code for finding in variant.findings)


async def test_a_server_that_reuses_nothing_is_a_finding(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    engines = ScriptedEngines(Oracle(plan))
    engines.options["fp8"] = {"forgets": True}
    manifest = await run(plan, tmp_path / "run", engines)
    assert all(finding.code != "no_prefix_hits" for finding in manifest.variants["bf16"].findings)
    found = [finding for finding in manifest.variants["fp8"].findings if finding.code == "no_prefix_hits"]
    assert [finding.level for finding in found] == ["warning"]
    assert "0 of " in found[0].message
    assert "planned were" in found[0].message


def totals(counters: dict[str, float], added: dict[str, float], planned: int, **facts: Any) -> dict[str, Any]:
    """The changes of a variant that had counted `counters` before a launch that added `added`."""
    current = VariantRun(
        name="fp8", role="candidate", spec={}, counters=counters, asking_seconds=1.0, facts=Facts(**facts),
        findings=[Finding.warning("no_prefix_hits", "of the first launch"), Finding.info("other", "kept")],
    )  # fmt: skip
    log = CounterLog()
    log._added |= added
    return Counted(log, 0.5, planned).changes(variants.variant(), current, [])


def test_counters_and_seconds_add_up_over_launches() -> None:
    found = totals({"a": 1.0, "b": 2.0}, {"b": 3.0, "c": 4.0}, 0)
    assert found["counters"] == {"a": 1.0, "b": 5.0, "c": 4.0}
    assert found["asking_seconds"] == 1.5


@pytest.mark.parametrize(
    ("hits", "caches", "codes"),
    [
        (0.0, None, ["other", "no_prefix_hits"]),
        (49.0, None, ["other", "prefix_hits_below_plan"]),
        (50.0, None, ["other"]),
        (0.0, False, ["other"]),
    ],
)
def test_a_second_launch_judges_the_totals_anew(hits: float, caches: bool | None, codes: list[str]) -> None:
    counted = {"prefix_cache_hits": hits, "prefix_cache_queries": 200.0}
    assert [finding.code for finding in totals({}, counted, 100, prefix_caching=caches)["findings"]] == codes


def test_whole_blocks_of_a_haystack_come_from_the_cache_for_all_but_the_first_question() -> None:
    rows = [sample(haystack, number, shared=40, tail=5) for haystack in "ab" for number in range(3)]
    assert planned_hit_tokens(rows, 16) == 2 * 2 * 32
    assert planned_hit_tokens(rows[:1], 16) == 0
    # The second question is prefilled again.
    assert planned_hit_tokens(rows, 16, prefills=2) == 2 * 32
    assert planned_hit_tokens(rows, 16, prefills=9) == 0
