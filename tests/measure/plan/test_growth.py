from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, ScriptedEngines
from support.sweeps import Planner, run

from kveval.errors import ResumeError, RunDirectoryError
from kveval.measure.plan.growth import by_stage, growth_notes
from kveval.measure.plan.plan import Plan
from kveval.run.directory import RunDirectory
from kveval.tasks.sample import Sample

TASKS = ["niah_single", "niah_multikey"]


def ids(samples: Iterable[Sample]) -> list[str]:
    return [sample.sample_id for sample in samples]


async def planned(plan_of: Planner, out: Path, **config: Any) -> Plan:
    """Makes a run of a plan, with its answers."""
    plan = plan_of(out=out, **config)
    await run(plan, out, ScriptedEngines(Oracle(plan)), resume=True)
    return plan


async def test_a_larger_plan_holds_every_sample_of_the_smaller(plan_of: Planner, tmp_path: Path) -> None:
    small = await planned(plan_of, tmp_path, tasks=TASKS, variants=["bf16"])
    large = plan_of(out=tmp_path, tasks=TASKS, variants=["bf16"], samples=20)

    [growth] = large.growth
    assert [(cell.task, cell.context_length, cell.before, cell.after) for cell in growth.cells] == [
        ("niah_single", 512, 6, 20), ("niah_multikey", 512, 6, 20),
    ]  # fmt: skip
    assert len(large.samples) == 40
    by_id = {sample.sample_id: sample for sample in large.samples}
    assert len(by_id) == 40
    for sample in small.samples:
        again = by_id[sample.sample_id]
        assert (again.prompt.sha256(), again.doc, again.haystack_id) == (
            sample.prompt.sha256(), sample.doc, sample.haystack_id,
        )  # fmt: skip
    first, added = large.stages
    assert {sample.sample_id for sample in first} == {sample.sample_id for sample in small.samples}
    assert not {sample.haystack_id for sample in first} & {sample.haystack_id for sample in added}
    asked_first = {sample.sample_id for one in large.in_order[:4] for sample in one.samples}
    assert asked_first == {sample.sample_id for sample in small.samples}
    assert growth_notes(growth, large.tasks) == [
        "samples are added: niah_single at 512 6 -> 20, niah_multikey at 512 6 -> 20; those of the run stay as they are"
    ]


async def test_a_run_grows_as_often_as_one_likes(plan_of: Planner, tmp_path: Path) -> None:
    plans = [await planned(plan_of, tmp_path, variants=["bf16"], samples=samples) for samples in (3, 10, 11)]
    again = plan_of(out=tmp_path, variants=["bf16"], samples=11)
    assert again.growth == plans[-1].growth
    assert [len(stage) for stage in again.stages] == [3, 7, 1]
    for end, plan in enumerate(plans, start=1):
        assert ids(s for stage in again.stages[:end] for s in stage) == ids(plan.samples)


async def test_texts_of_the_divergence_stay_when_samples_are_added(plan_of: Planner, tmp_path: Path) -> None:
    small = await planned(plan_of, tmp_path, variants=["bf16"], divergence={"samples": 2, "tokens": 16})
    large = plan_of(out=tmp_path, variants=["bf16"], samples=60, divergence={"samples": 2, "tokens": 16})
    assert [text.text_id for text in large.texts] == [text.text_id for text in small.texts]


async def test_one_task_may_grow_alone(plan_of: Planner, tmp_path: Path) -> None:
    own = {"name": "niah_multikey", "samples": 3}
    await planned(plan_of, tmp_path, variants=["bf16"], tasks=["niah_single", own])
    plan = plan_of(out=tmp_path, variants=["bf16"], tasks=["niah_single", own | {"samples": 9}])
    [growth] = plan.growth
    assert [(cell.task, cell.before, cell.after) for cell in growth.cells] == [("niah_multikey", 3, 9)]
    assert growth_notes(growth, plan.tasks)[1:] == ["nothing is added to niah_single"]


async def test_fixed_prompts_grow_by_the_next_rows(plan_of: Planner, tmp_path: Path) -> None:
    rows = [{"prompt": f"{'long ' * n} what is {n}?", "answer": str(n)} for n in range(8)]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def tasks(samples: int | None) -> list[dict[str, Any]]:
        return [{"file": str(file), "samples": samples}]

    small = await planned(plan_of, tmp_path / "run", variants=["bf16"], tasks=tasks(3))
    large = plan_of(out=tmp_path / "run", variants=["bf16"], tasks=tasks(8))
    everything = plan_of(out=tmp_path / "run", variants=["bf16"], tasks=tasks(None))
    for plan in (large, everything):
        assert ids(plan.samples[:3]) == ids(small.samples)
        [cell] = plan.growth[0].cells
        assert (cell.context_length, cell.before, cell.after) == (None, 3, 8)
        assert [len(stage) for stage in plan.stages] == [3, 5]


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ({}, {"samples": 5}, r"samples was 6 in this run and is 5 now, .* use 6 or more, or a new --out"),
        (
            {"tasks": [{"name": "niah_single", "samples": 9}]},
            {},
            r"tasks\.0\.samples was 9 in this run and is 6 now, .* use 9 or more",
        ),
        (
            {"tasks": [{"name": "niah_single", "samples": 9}]},
            {"tasks": [{"name": "niah_single", "samples": 9}], "samples": 7},
            "nothing is added by the samples asked for now",
        ),
    ],
)
async def test_fewer_samples_are_refused_in_one_line(
    plan_of: Planner, tmp_path: Path, before: dict[str, Any], now: dict[str, Any], message: str
) -> None:
    await planned(plan_of, tmp_path, variants=["bf16"], **before)
    with pytest.raises(ResumeError, match=message) as refusal:
        plan_of(out=tmp_path, variants=["bf16"], **now)
    assert "\n" not in str(refusal.value)


async def test_a_run_without_its_samples_does_not_grow(plan_of: Planner, tmp_path: Path) -> None:
    await planned(plan_of, tmp_path, variants=["bf16"])
    (tmp_path / "samples.jsonl").write_text("[]\n")
    with pytest.raises(RunDirectoryError, match=r"samples\.jsonl:1"):
        plan_of(out=tmp_path, variants=["bf16"], samples=9)
    assert plan_of(out=tmp_path, variants=["bf16"]).growth == ()
    (tmp_path / "samples.jsonl").unlink()
    with pytest.raises(ResumeError, match=r"without samples\.jsonl; use --resume with the samples of this run first"):
        plan_of(out=tmp_path, variants=["bf16"], samples=9)


def test_a_run_that_never_grew_has_one_stage(plan_of: Planner) -> None:
    plan = plan_of()
    assert by_stage(plan.samples, ()) == (tuple(plan.samples),)
    assert plan.growth == ()


async def test_a_run_without_looks_that_grows_says_that_a_verdict_before_counts(
    plan_of: Planner, tmp_path: Path
) -> None:
    fixed: dict[str, Any] = {"variants": ["bf16"], "stop": "never"}
    small = await planned(plan_of, tmp_path, samples=3, **fixed)
    assert "grown_without_looks" not in {one.code for one in small.findings}
    await planned(plan_of, tmp_path, samples=6, **fixed)
    manifest = RunDirectory(tmp_path).read_manifest()
    [said] = [one.message for one in manifest.variants["bf16"].findings if one.code == "grown_without_looks"]
    assert "it can be judged 2 times" in said
    again = plan_of(out=tmp_path, samples=9, **fixed)
    assert any("it can be judged 3 times" in one.message for one in again.findings)


async def test_a_run_with_looks_that_grows_has_kept_an_error_rate_for_it(plan_of: Planner, tmp_path: Path) -> None:
    await planned(plan_of, tmp_path, variants=["bf16"], samples=3)
    assert "grown_without_looks" not in {one.code for one in plan_of(out=tmp_path, samples=6).findings}
