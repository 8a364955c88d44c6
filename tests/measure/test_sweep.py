"""The whole sweep against scripted servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines, always
from support.sweeps import Nth, Planner, outcomes, records, run

from kveval.run.directory import RunDirectory


async def test_an_oracle_scores_one_on_every_task(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(
        tasks=["niah_single", "niah_multikey", "niah_multivalue", "niah_multiquery", "niah_absent"],
        variants=["bf16", {"name": "fp8", "control": "emulated"}, "int8"],
        context_lengths=[1024],
        samples=4,
        aa_share=0.5,
    )
    engines = ScriptedEngines(Oracle(plan))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "complete"
    assert engines.launches == ["bf16", "bf16-aa", "fp8", "int8", "fp8-control"]
    for variant in plan.variants:
        answered = records(tmp_path / "run", variant.name)
        assert {record.sample_id for record in answered} == {s.sample_id for s in plan.samples_of(variant)}
        assert len(answered) == len(plan.samples_of(variant))
        assert {(record.score, record.outcome) for record in answered} == {(1.0, "correct")}
    assert 0 < len(plan.aa_sample_ids) < len(plan.samples)


async def test_what_a_record_and_the_manifest_hold(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", "int8"])
    engines = ScriptedEngines(Oracle(plan))

    await run(plan, tmp_path / "run", engines)

    by_id = {sample.sample_id: sample for sample in plan.samples}
    for record in records(tmp_path / "run", "int8"):
        sample = by_id[record.sample_id]
        assert record.prompt_tokens == len(sample.prompt)
        assert record.output == "they are " + sample.doc["answers"][0]
        assert record.finish_reason == "stop"
        assert record.output_tokens == len(record.output_token_ids) == 3
        assert record.ttft_ms is not None
        assert record.ttft_ms <= record.total_ms
        assert record.logprobs is not None
        assert record.error is None
    run_directory = RunDirectory(tmp_path / "run")
    manifest = run_directory.read_manifest()
    assert manifest.variants["int8"].facts.storage == "emulated"
    assert [finding.code for finding in manifest.variants["int8"].findings] == ["emulated"]
    assert manifest.variants["bf16"].counters["prompt_tokens"] >= sum(len(sample.prompt) for sample in plan.samples)
    assert [row.sample_id for row in run_directory.samples()] == [sample.sample_id for sample in plan.samples]
    assert (tmp_path / "run" / "records.parquet").is_file()


async def test_every_variant_gets_the_same_requests(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    engines = ScriptedEngines(Oracle(plan))

    await run(plan, tmp_path / "run", engines)

    bf16, fp8 = (
        sorted(json.dumps(body, sort_keys=True) for body in engines.servers[name].requests) for name in ("bf16", "fp8")
    )
    assert bf16 == fp8
    body = engines.servers["fp8"].requests[-1]
    assert body["temperature"] == 0.0
    assert isinstance(body["prompt"][0], int)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply("it is 1234567890"), "wrong"),
        (Reply("it is not stated in the text"), "abstained"),
        (Reply("", finish_reason="length"), "truncated"),
    ],
)
async def test_other_answers(plan_of: Planner, tmp_path: Path, reply: Reply, outcome: str) -> None:
    plan = plan_of(variants=["bf16"], accept_findings=["smoke_failed"])
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(always(reply)))
    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "bf16") == {outcome: 6}


async def test_a_scorer_that_fails_on_an_answer_costs_no_answer(
    plan_of: Planner, own_tasks: Path, tmp_path: Path
) -> None:
    with (own_tasks / "own" / "mine.yaml").open("a") as file:
        file.write("process_results: !function squeamish.score\n")
    (own_tasks / "own" / "squeamish.py").write_text(
        "def score(doc, results): return {'score': 1 / ('boxes' not in results[0])}\n"
    )
    plan = plan_of(include_path=str(own_tasks), tasks=["mine"], variants=["bf16"], accept_findings=["smoke_failed"])
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(Nth(Oracle(plan), Reply("it is in boxes"), at=2)))
    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "bf16") == {"correct": 5, "invalid_format": 1}
    (kept,) = (record for record in records(tmp_path / "run", "bf16") if record.error)
    assert (kept.output, kept.error and kept.error.kind) == ("it is in boxes", "scorer_failed")
    [warned] = [finding for finding in manifest.variants["bf16"].findings if finding.code == "scorer_failed"]
    assert warned.level == "warning"
    assert "count as invalid_format: 1; the first: task file" in warned.message
