"""A server is looked at again while it is asked: its facts, its counters, and questions from the start."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines, ScriptedServer
from support.sweeps import Planner, codes, is_smoke, outcomes, records, run

from kveval.errors import FactsChangedError, ResumeError
from kveval.measure.asker import ServerBrokenError
from kveval.measure.watch.facts import FactsWatch
from kveval.run.directory import RunDirectory
from kveval.run.records import Record

pytestmark = pytest.mark.sentinels

SIXTY = {"samples": 60, "questions_per_haystack": 3, "requests": {"max_in_flight": 1, "max_attempts": 1}}


class After:
    """Answers rightly, and calls `change` before it answers the n-th question (from 0)."""

    def __init__(self, oracle: Oracle, at: int, change: Callable[[], None]) -> None:
        self.oracle, self.at, self.change, self.count = oracle, at, change, 0

    def __call__(self, prompt: list[int], body: dict[str, Any]) -> Reply:
        if not is_smoke(body):
            if self.count == self.at:
                self.change()
            self.count += 1
        return self.oracle(prompt, body)


def aside(out: Path, variant: str) -> list[str]:
    path = out / "set_aside" / "records" / f"{variant}.jsonl"
    return [json.loads(line)["sample_id"] for line in path.read_text().splitlines()]


async def test_questions_from_the_start_are_asked_again_and_enter_no_score(plan_of: Planner, tmp_path: Path) -> None:
    plan, out = plan_of(**SIXTY), tmp_path / "run"
    engines = ScriptedEngines(Oracle(plan))
    manifest = await run(plan, out, engines)
    assert manifest.status == "complete"
    for variant in ("bf16", "fp8"):
        again = list(RunDirectory(out).sentinel_records(variant))
        assert [one.purpose for one in again] == ["sentinel"] * 3
        assert [one.outcome for one in again] == ["correct"] * 3
        # A block ends within a haystack, whose other questions come first.
        assert [one.asked_after for one in again] == [21, 42, 60]
        assert len({one.sample_id for one in again}) == 3
        firsts = [record.sample_id for record in records(out, variant)]
        assert {one.sample_id for one in again} <= set(firsts[:12])
        assert outcomes(out, variant) == {"correct": 60}
    assert engines.requests() == 2 * 63


async def test_what_is_asked_is_spread_over_time_for_every_variant_alike(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(
        tasks=["niah_single", "niah_multikey"], context_lengths=[512, 1024], samples=12, questions_per_haystack=3,
        requests={"max_in_flight": 1},
    )  # fmt: skip
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    await run(plan, tmp_path / "run", engines)
    asked = [[record.sample_id for record in records(tmp_path / "run", name)] for name in ("bf16", "fp8")]
    assert asked[0] == asked[1]
    cells = [(record.task, record.context_length) for record in records(tmp_path / "run", "bf16")]
    for quarter in range(4):
        assert len(set(cells[quarter * 12 : quarter * 12 + 12])) == 4
    haystacks = [record.haystack_id for record in records(tmp_path / "run", "bf16")]
    assert all(len(set(haystacks[at : at + 3])) == 1 for at in range(0, 48, 3))


async def test_an_interrupted_run_is_a_smaller_run_of_every_cell_and_resumes(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(
        tasks=["niah_single", "niah_multikey"], context_lengths=[512, 1024], samples=12, questions_per_haystack=3,
        requests={"max_in_flight": 1}, variants=["bf16"],
    )  # fmt: skip
    out = tmp_path / "run"

    asking: list[asyncio.Task[Any]] = []
    handler = After(Oracle(plan), 26, lambda: asking[0].cancel())
    asking.append(asyncio.create_task(run(plan, out, ScriptedEngines(handler))))
    with pytest.raises(asyncio.CancelledError):
        await asking[0]
    kept = records(out, "bf16")[:24]
    assert set(Counter((record.task, record.context_length) for record in kept).values()) == {6}


async def test_a_run_that_was_asked_in_another_order_goes_on(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(context_lengths=[512, 1024], samples=12, questions_per_haystack=3, variants=["bf16"])
    out, oracle = tmp_path / "run", Oracle(plan)
    await run(plan, out, ScriptedEngines(oracle))
    path = RunDirectory(out).records_path("bf16")
    lines = sorted(path.read_text().splitlines(keepends=True), key=lambda line: json.loads(line)["context_length"])
    path.write_text("".join(lines[:14]))
    shutil.rmtree(out / "sentinels")

    engines = ScriptedEngines(oracle)
    manifest = await run(plan, out, engines, resume=True)
    assert manifest.status == "complete"
    assert outcomes(out, "bf16") == {"correct": 24}
    # 10 questions, and 2 of those answered before: after 16 and 24 answers.
    assert engines.requests() == 12
    assert len(list(RunDirectory(out).sentinel_records("bf16"))) == 2


def restarted(server: ScriptedServer) -> None:
    server.cache_dtype, server.version, server.capacity_tokens = "bfloat16", "0.30.0", 7
    server.prompt_tokens = server.prefix_cache_hits = server.prefix_cache_queries = 0


@pytest.mark.parametrize("variant", ["bf16", "fp8"])
async def test_a_server_that_changes_midway_ends_the_variant_and_says_when(
    plan_of: Planner, tmp_path: Path, variant: str
) -> None:
    plan, out = plan_of(**SIXTY), tmp_path / "run"
    engines = ScriptedEngines(Oracle(plan))
    engines.handlers[variant] = After(Oracle(plan), 33, lambda: restarted(engines.servers[variant]))
    manifest = await run(plan, out, engines)

    changed = manifest.variants[variant]
    assert (manifest.status, changed.status) == ("incomplete", "stopped")
    names = {change.name: (change.before, change.after) for change in changed.facts_changed}
    if variant == "fp8":
        assert names["effective_cache_dtype"] == ("fp8", "bfloat16")
    assert names["engine_version"] == ("scripted", "0.30.0")
    assert names["kv_capacity_tokens"][1] == "7"
    assert {change.at_question for change in changed.facts_changed} == {40}
    assert "between answer 30 and answer 40" in str(changed.reason)
    assert "asks them again" in str(changed.reason)
    kept, moved = records(out, variant), aside(out, variant)
    assert len(kept) == 30
    assert moved
    assert not {record.sample_id for record in kept} & set(moved)
    assert codes(changed)["counters_reset"] == "warning"

    with pytest.raises(ResumeError, match="use the same engine, or a new --out"):
        await run(plan, out, _changed_from_the_start(plan, variant), resume=True)

    resumed = await run(plan, out, ScriptedEngines(Oracle(plan)), resume=True)
    assert resumed.status == "complete"
    assert resumed.variants[variant].facts_changed == []
    assert codes(resumed.variants[variant])["facts_changed_before"] == "warning"
    assert outcomes(out, variant) == {"correct": 60}


def _changed_from_the_start(plan: Any, variant: str) -> ScriptedEngines:
    engines = ScriptedEngines(Oracle(plan))
    engines.options[variant] = {"version": "0.30.0"}
    return engines


async def test_a_server_that_changes_after_the_last_question_ends_the_variant_too(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan, out = plan_of(**SIXTY, cold_check=4, variants=["bf16"]), tmp_path / "run"
    engines = ScriptedEngines(Oracle(plan))
    # 60 questions and 3 sentinels come first; what is asked without the prefix cache has a salt.
    seen = 0

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal seen
        seen += body.get("cache_salt", "kveval-smoke") != "kveval-smoke"
        if seen == 2:
            engines.servers["bf16"].version = "0.30.0"
        return Oracle(plan)(prompt, body)

    engines.handlers["bf16"] = handler
    manifest = await run(plan, out, engines)
    assert manifest.variants["bf16"].status == "stopped"
    assert [change.at_question for change in manifest.variants["bf16"].facts_changed] == [60]
    assert len(records(out, "bf16")) == 60
    assert list(RunDirectory(out).cold_records("bf16")) == []

    # It changes again while only the cold questions are missing.
    seen = 0
    engines = ScriptedEngines(handler)
    manifest = await run(plan, out, engines, resume=True)
    assert manifest.variants["bf16"].status == "stopped"

    resumed = await run(plan, out, ScriptedEngines(Oracle(plan)), resume=True)
    assert resumed.status == "complete"
    assert resumed.variants["bf16"].facts_changed == []
    assert codes(resumed.variants["bf16"])["facts_changed_before"] == "warning"
    assert len(list(RunDirectory(out).cold_records("bf16"))) == 4


async def test_a_server_that_comes_back_with_other_facts_has_changed(plan_of: Planner, tmp_path: Path) -> None:
    plan, out = plan_of(**SIXTY, variants=["bf16"]), tmp_path / "run"
    engines = ScriptedEngines(Oracle(plan))

    def die() -> None:
        engines.servers["bf16"].died, engines.servers["bf16"].version = True, "0.30.0"

    engines.handlers["bf16"] = After(Oracle(plan), 33, die)
    manifest = await run(plan, out, engines)
    assert engines.launches == ["bf16", "bf16"]
    assert manifest.variants["bf16"].status == "stopped"
    assert [change.name for change in manifest.variants["bf16"].facts_changed] == ["engine_version"]
    assert len(records(out, "bf16")) == 30


async def test_no_answer_of_a_changed_server_is_kept_while_others_are_still_being_answered(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = plan_of(**SIXTY | {"requests": {"max_in_flight": 16, "max_attempts": 1}}), tmp_path / "run"
    engines = ScriptedEngines(Oracle(plan))
    has_changed = False

    def change() -> None:
        nonlocal has_changed
        has_changed = True
        restarted(engines.servers["fp8"])

    rightly = After(Oracle(plan), 33, change)

    def answer(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = rightly(prompt, body)
        return Reply(f"{reply.text} changed") if has_changed else reply

    engines.handlers["fp8"] = answer
    set_aside = FactsWatch.set_aside
    late: list[Record] = []

    def and_one_more(self: FactsWatch) -> int:
        moved = set_aside(self)
        if not late:
            # It was being scored when the change was seen.
            late.append(RunDirectory(out).records("bf16").__next__().model_copy(update={"variant": "fp8"}))
            RunDirectory(out).append(late[0])
        return moved

    monkeypatch.setattr(FactsWatch, "set_aside", and_one_more)
    manifest = await run(plan, out, engines)
    assert manifest.variants["fp8"].status == "stopped"
    kept = records(out, "fp8")
    assert late
    assert late[0] not in kept
    assert not [record for record in kept if "changed" in record.output]


async def test_a_change_is_told_even_if_the_server_broke_at_the_same_moment(
    plan_of: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, out = plan_of(**SIXTY), tmp_path / "run"
    engines = ScriptedEngines(Oracle(plan))
    engines.handlers["fp8"] = After(Oracle(plan), 33, lambda: restarted(engines.servers["fp8"]))
    look = FactsWatch.look

    async def and_breaks(self: FactsWatch, *arguments: Any, **options: Any) -> None:
        try:
            await look(self, *arguments, **options)
        except FactsChangedError as error:
            raise ServerBrokenError("the server is not healthy") from error

    monkeypatch.setattr(FactsWatch, "look", and_breaks)
    manifest = await run(plan, out, engines)
    stopped = manifest.variants["fp8"]
    assert (manifest.status, stopped.status, stopped.launches) == ("incomplete", "stopped", 1)
    assert "engine_version" in {change.name for change in stopped.facts_changed}
    assert "the server changed while it was asked" in str(stopped.reason)
    assert len(records(out, "fp8")) == 30
