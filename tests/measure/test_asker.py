from __future__ import annotations

from pathlib import Path

from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Nth, Planner, records, run

from kveval.run.looks import LengthFinding


async def test_everything_up_to_a_look_is_answered_before_it_is_judged(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(samples=48, questions_per_haystack=2)
    first_look, out, oracle = plan.looks.first_look, tmp_path / "run", Oracle(plan)
    engines = ScriptedEngines(oracle)
    # What was in flight when the server died is asked last, but before the look that it belongs to.
    engines.handlers["fp8"] = Nth(oracle, Reply(die=True), at=5)
    seen = []

    def judge(variant: str) -> dict[int, LengthFinding]:
        seen.append({first_look[record.sample_id] for record in records(out, variant)})
        assert len(records(out, variant)) == sum(number in seen[-1] for number in first_look.values())
        return {512: LengthFinding(word="undecided")}

    await run(plan, out, engines, judge=judge)

    assert seen == [{1}, {1, 2}, {1, 2, 3}]
