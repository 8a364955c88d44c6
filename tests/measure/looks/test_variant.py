"""A sweep that judges candidates while they are asked, against scripted servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines, always
from support.sweeps import Nth, Planner, records, run

from kveval.errors import ResumeError, RunDirectoryError
from kveval.judge.comparison.headline import headlines
from kveval.judge.comparison.judgement import judge_run
from kveval.judge.looks.interim import findings_at_look
from kveval.judge.run_data import load_ended_run, load_run
from kveval.measure.plan.plan import Plan
from kveval.run.directory import RunDirectory
from kveval.run.looks import LengthFinding, StopCause

LENGTHS = (512, 640)


@pytest.fixture
def plan(plan_of: Planner) -> Plan:
    """24 haystacks of two questions at two lengths: looks at 6, 12 and 24."""
    return plan_of(context_lengths=list(LENGTHS), samples=48, questions_per_haystack=2)


class Script:
    """Stops lengths at given looks, and notes at which looks it was asked."""

    def __init__(self, out: Path, stops: dict[int, tuple[int, StopCause]]) -> None:
        self.out, self.stops = out, stops
        self.seen: list[tuple[str, int, list[int], int]] = []

    def __call__(self, variant: str) -> dict[int, LengthFinding]:
        look = RunDirectory(self.out).read_manifest().variants[variant].looks[-1]
        self.seen.append((variant, look.number, look.context_lengths, look.questions))
        found = {}
        for length in look.context_lengths:
            number, cause = self.stops.get(length, (99, "decided"))
            stop = cause if number == look.number else None
            found[length] = LengthFinding(word="pass" if stop else "undecided", stop=stop, reason="scripted")
        return found


def real_judge(out: Path) -> Callable[[str], dict[int, LengthFinding]]:
    return lambda variant: findings_at_look(load_run(out), variant)


def asked(out: Path, variant: str) -> dict[int, int]:
    found = records(out, variant)
    return {length: sum(one.context_length == length for one in found) for length in LENGTHS}


async def test_a_length_that_is_decided_is_asked_no_more_and_the_others_go_on(plan: Plan, tmp_path: Path) -> None:
    out = tmp_path / "run"
    judge = Script(out, {512: (1, "decided"), 640: (2, "decided")})

    manifest = await run(plan, out, ScriptedEngines(Oracle(plan)), judge=judge)

    assert judge.seen == [("fp8", 1, [512, 640], 24), ("fp8", 2, [640], 36)]
    assert asked(out, "bf16") == {512: 48, 640: 48}
    assert asked(out, "fp8") == {512: 12, 640: 24}
    fp8 = manifest.variants["fp8"]
    assert (manifest.status, fp8.status) == ("complete", "complete")
    assert fp8.reason == "stopped at 36 of 96 questions (38%): every context length is decided"
    assert {length: (stop.look, stop.cause) for length, stop in fp8.stopped.items()} == {
        512: (1, "decided"),
        640: (2, "decided"),
    }
    assert [look.number for look in fp8.looks] == [1, 2]
    assert sum(look.error_share for look in manifest.planned_looks) == pytest.approx(0.9)


async def test_what_was_not_asked_is_never_unanswered(plan: Plan, tmp_path: Path) -> None:
    out = tmp_path / "run"
    judge = Script(out, {512: (1, "decided"), 640: (1, "decided")})
    await run(plan, out, ScriptedEngines(Oracle(plan)), judge=judge)

    ended = load_ended_run(out)
    assert len(ended.asked(ended.manifest.variants["fp8"])) == 24
    judgement = judge_run(ended)
    assert judgement.problems == ()
    assert judgement.of("fp8", "overall")[0].outcomes["candidate"]["missing"] == 0


async def test_a_run_that_stopped_early_asks_nothing_when_it_is_resumed(plan: Plan, tmp_path: Path) -> None:
    out, engines = tmp_path / "run", ScriptedEngines(Oracle(plan))
    judge = Script(out, {512: (1, "decided"), 640: (1, "futile")})
    await run(plan, out, engines, judge=judge)
    before = RunDirectory(out).read_manifest().variants

    manifest = await run(plan, out, engines, judge=judge, resume=True)

    assert engines.launches == ["bf16", "fp8"]
    assert manifest.status == "complete"
    assert manifest.variants == before


async def test_a_control_is_asked_what_its_candidate_was(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(
        variants=["bf16", {"name": "fp8", "control": "emulated"}],
        context_lengths=list(LENGTHS),
        samples=48,
        questions_per_haystack=2,
        cold_check=4,
    )
    out = tmp_path / "run"
    judge = Script(out, {512: (1, "decided"), 640: (2, "decided")})

    manifest = await run(plan, out, ScriptedEngines(Oracle(plan)), judge=judge)

    assert asked(out, "fp8-control") == asked(out, "fp8") == {512: 12, 640: 24}
    assert manifest.variants["fp8-control"].status == "complete"
    assert [seen[0] for seen in judge.seen] == ["fp8", "fp8"]
    cold = {record.sample_id for record in RunDirectory(out).cold_records("fp8")}
    assert len(cold) == 4
    assert cold <= {record.sample_id for record in records(out, "fp8")}


async def test_never_asks_everything_and_takes_no_look(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(context_lengths=list(LENGTHS), samples=48, questions_per_haystack=2, stop="never")
    out = tmp_path / "run"
    judge = Script(out, {512: (1, "decided"), 640: (1, "decided")})

    manifest = await run(plan, out, ScriptedEngines(Oracle(plan)), judge=judge)

    assert judge.seen == []
    assert asked(out, "fp8") == {512: 48, 640: 48}
    assert manifest.planned_looks == []
    assert {row.confidence for row in judge_run(load_run(out)).comparisons} == {0.95}


async def test_a_server_that_dies_between_looks_is_started_again_and_every_look_is_taken_once(
    plan: Plan, tmp_path: Path
) -> None:
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = Nth(oracle, Reply(die=True), at=30)
    out = tmp_path / "run"
    judge = Script(out, {})

    manifest = await run(plan, out, engines, judge=judge)

    assert [(number, questions) for _, number, _, questions in judge.seen] == [(1, 24), (2, 48), (3, 96)]
    assert manifest.variants["fp8"].launches == 2
    assert manifest.variants["fp8"].status == "complete"


async def test_an_interrupted_night_goes_on_with_the_next_look(plan: Plan, tmp_path: Path) -> None:
    class Interrupt(Script):
        def __call__(self, variant: str) -> dict[int, LengthFinding]:
            found = super().__call__(variant)
            if len(self.seen) == 2:
                raise KeyboardInterrupt
            return found

    out, engines = tmp_path / "run", ScriptedEngines(Oracle(plan))
    judge = Interrupt(out, {})
    with pytest.raises(KeyboardInterrupt):
        await run(plan, out, engines, judge=judge)
    # Look 2 was begun and not judged. It is judged first, and nothing is asked twice.
    manifest = await run(plan, out, engines, judge=judge, resume=True)

    assert [seen[1] for seen in judge.seen] == [1, 2, 2, 3]
    assert [look.number for look in manifest.variants["fp8"].looks] == [1, 2, 3]
    assert len(records(out, "fp8")) == 96


async def test_a_look_that_was_not_reached_is_taken_without_a_server(plan: Plan, tmp_path: Path) -> None:
    class Interrupt(Script):
        def __call__(self, variant: str) -> dict[int, LengthFinding]:
            found = super().__call__(variant)
            if len(self.seen) == 3:
                raise KeyboardInterrupt
            return found

    out, engines = tmp_path / "run", ScriptedEngines(Oracle(plan))
    judge = Interrupt(out, {})
    with pytest.raises(KeyboardInterrupt):
        await run(plan, out, engines, judge=judge)
    manifest = await run(plan, out, engines, judge=judge, resume=True)

    assert [seen[1] for seen in judge.seen] == [1, 2, 3, 3]
    assert engines.launches == ["bf16", "fp8"]
    assert manifest.variants["fp8"].status == "complete"
    assert [bool(look.lengths) for look in manifest.variants["fp8"].looks] == [True, True, True]


async def test_a_look_that_cannot_be_judged_stops_nothing(plan: Plan, tmp_path: Path) -> None:
    def broken(variant: str) -> dict[int, LengthFinding]:
        raise RunDirectoryError("a line is broken")

    manifest = await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)), judge=broken)

    assert manifest.status == "complete"
    assert len(records(tmp_path / "run", "fp8")) == 96


async def test_a_collapse_ends_a_variant_after_its_first_block(plan: Plan, tmp_path: Path) -> None:
    out, oracle = tmp_path / "run", Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = always(Reply("the the the"))

    manifest = await run(plan, out, engines, judge=real_judge(out))

    assert asked(out, "fp8") == {512: 12, 640: 12}
    assert {stop.cause for stop in manifest.variants["fp8"].stopped.values()} == {"collapse"}
    (found,) = headlines(judge_run(load_run(out)))
    assert found.word == "fail"


@pytest.mark.parametrize(("samples", "expected"), [(10, 24), (24, 24), (47, 24), (48, 48), (95, 48), (96, 96)])
async def test_a_budget_of_samples_ends_a_candidate_at_the_last_look_that_it_holds(
    plan_of: Planner, tmp_path: Path, samples: int, expected: int
) -> None:
    plan = plan_of(context_lengths=list(LENGTHS), samples=48, questions_per_haystack=2, budget={"samples": samples})
    out = tmp_path / "run"

    manifest = await run(plan, out, ScriptedEngines(Oracle(plan)), judge=Script(out, {}))

    assert len(records(out, "bf16")) == 96
    assert len(records(out, "fp8")) == expected
    assert manifest.variants["fp8"].status == "complete"
    assert (expected == 96) == (manifest.variants["fp8"].reason is None)


async def test_what_a_decided_length_leaves_of_the_budget_goes_to_the_others(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(context_lengths=list(LENGTHS), samples=48, questions_per_haystack=2, budget={"samples": 60})
    out = tmp_path / "run"

    await run(plan, out, ScriptedEngines(Oracle(plan)), judge=Script(out, {512: (1, "decided")}))

    assert asked(out, "fp8") == {512: 12, 640: 48}


async def test_a_larger_budget_goes_on_where_the_smaller_one_ended(plan_of: Planner, tmp_path: Path) -> None:
    out = tmp_path / "run"
    keys = {"context_lengths": list(LENGTHS), "samples": 48, "questions_per_haystack": 2}
    plan = plan_of(**keys, budget={"samples": 50})
    engines = ScriptedEngines(Oracle(plan))
    judge = Script(out, {})
    await run(plan, out, engines, judge=judge)
    await run(plan, out, engines, judge=judge, resume=True)
    assert engines.launches == ["bf16", "fp8"]

    manifest = await run(plan_of(**keys), out, engines, judge=judge, resume=True)

    assert len(records(out, "fp8")) == 96
    assert [look.number for look in manifest.variants["fp8"].looks] == [1, 2, 3]
    assert manifest.variants["fp8"].stopped == {}


async def test_when_server_time_is_spent_the_run_ends_as_a_valid_smaller_night(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(context_lengths=list(LENGTHS), samples=48, questions_per_haystack=2, budget={"gpu_hours": 1e-9})
    out = tmp_path / "run"

    manifest = await run(plan, out, ScriptedEngines(Oracle(plan)), judge=Script(out, {}))

    assert asked(out, "bf16") == asked(out, "fp8") == {512: 12, 640: 12}
    assert manifest.status == "complete"
    assert manifest.variants["bf16"].reason is not None
    assert "budget.gpu_hours" in manifest.variants["bf16"].reason
    judgement = judge_run(load_ended_run(out))
    assert judgement.problems == ()


async def test_server_time_that_is_spent_starts_no_server_of_a_run_that_goes_on(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(context_lengths=list(LENGTHS), samples=48, questions_per_haystack=2, budget={"gpu_hours": 1e-9})
    out, engines = tmp_path / "run", ScriptedEngines(Oracle(plan))
    judge = Script(out, {})
    await run(plan, out, engines, judge=judge)
    manifest = await run(plan, out, engines, judge=judge, resume=True)

    assert engines.launches == ["bf16", "fp8"]
    assert manifest.status == "complete"


async def test_a_run_keeps_the_rule_by_which_it_stops(plan_of: Planner, tmp_path: Path) -> None:
    out = tmp_path / "run"
    plan = plan_of()
    await run(plan, out, ScriptedEngines(Oracle(plan)), judge=Script(out, {}))
    with pytest.raises(ResumeError, match="stop was 'when_decided' in this run and is 'never' now"):
        await run(plan_of(stop="never"), out, ScriptedEngines(Oracle(plan)), resume=True)
