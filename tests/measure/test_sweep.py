"""The whole sweep against scripted servers."""

from __future__ import annotations

import asyncio
import errno
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tenacity
from support.scripted import Oracle, Reply, ScriptedEngines, always

from kveval.errors import EngineError, FactsError, ResumeError, RunDirectoryError, StorageError
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory
from kveval.run.manifest import Manifest
from kveval.run.records import Record

Planner = Callable[..., Plan]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.engines.client.client._BACKOFF", tenacity.wait_none())
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)


async def run(plan: Plan, out: Path, engines: ScriptedEngines, *, resume: bool = False, **options: Any) -> Manifest:
    return await sweep(plan, out, resume=resume, reporter=SilentReporter(), open_engine=engines, **options)


def records(out: Path, variant: str) -> list[Record]:
    return list(RunDirectory(out).records(variant))


def outcomes(out: Path, variant: str) -> Counter[str]:
    return Counter(record.outcome for record in records(out, variant))


def is_smoke(body: dict[str, Any]) -> bool:
    return "cache_salt" in body


class Nth:
    """`reply` for the n-th question (from 0; all of them at `every`), the oracle's answer for the others."""

    def __init__(self, oracle: Oracle, reply: Reply, *, at: int | None = None, every: int | None = None) -> None:
        self.oracle, self.reply, self.at, self.every = oracle, reply, at, every
        self.count = 0

    def __call__(self, prompt: list[int], body: dict[str, Any]) -> Reply:
        if is_smoke(body):
            return self.oracle(prompt, body)
        number, self.count = self.count, self.count + 1
        hit = number == self.at if self.every is None else number % self.every == 0
        return self.reply if hit else self.oracle(prompt, body)


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


async def test_a_silent_candidate_is_refused_by_the_smoke_questions(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    engines = ScriptedEngines(Oracle(plan))
    engines.handlers["fp8"] = always(Reply(""))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "incomplete"
    assert manifest.variants["fp8"].status == "refused"
    assert "the answer is empty (smoke_failed; to measure it all the same: --accept-finding smoke_failed)" in str(
        manifest.variants["fp8"].reason
    )
    assert engines.servers["fp8"].asked == []


async def test_a_silent_engine_has_only_empty_answers(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(accept_findings=["smoke_failed"])
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(always(Reply(""))))
    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "fp8") == {"empty": 6}


async def test_a_failing_request_is_retried(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Nth(Oracle(plan), Reply(status=500), every=4))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "bf16") == {"correct": 6}
    assert Counter(record.attempts for record in records(tmp_path / "run", "bf16"))[2] == 2


async def test_what_fails_at_every_attempt_is_an_engine_error_and_the_run_goes_on(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of()
    oracle = Oracle(plan)
    broken = {sample.sample_id for sample in plan.samples[::3]}

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        if not is_smoke(body) and oracle.sample(prompt).sample_id in broken:
            return Reply(status=500, message="no such luck")
        return oracle(prompt, body)

    manifest = await run(plan, tmp_path / "run", ScriptedEngines(handler))

    assert manifest.status == "complete"
    for variant in ("bf16", "fp8"):
        failed = [record for record in records(tmp_path / "run", variant) if record.outcome == "engine_error"]
        assert {record.sample_id for record in failed} == broken
        assert all(record.error and record.error.message == "HTTP 500: no such luck" for record in failed)
        assert all(record.attempts == 2 for record in failed)
        assert outcomes(tmp_path / "run", variant) == {"correct": 4, "engine_error": 2}


async def test_a_bad_request_is_one_record_without_a_retry(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    too_long = Reply(status=400, message="This model's maximum context length is 10 tokens")
    engines = ScriptedEngines(Nth(Oracle(plan), too_long, at=2))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "complete"
    assert engines.requests() == 6
    failed = [record for record in records(tmp_path / "run", "bf16") if record.outcome == "engine_error"]
    assert [record.error.kind for record in failed if record.error] == ["bad_request"]


async def test_bad_requests_alone_never_stop_a_variant(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Nth(Oracle(plan), Reply(status=400), every=1))
    manifest = await run(plan, tmp_path / "run", engines)
    assert manifest.status == "complete"
    assert engines.launches == ["bf16"]


async def test_a_changed_prompt_is_not_scored(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    oracle = Oracle(plan)

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = oracle(prompt, body)
        reply.prompt_tokens = len(prompt) + 1
        return reply

    await run(plan, tmp_path / "run", ScriptedEngines(handler))

    answered = records(tmp_path / "run", "bf16")
    assert {record.error.kind for record in answered if record.error} == {"prompt_changed"}
    assert {record.score for record in answered} == {0.0}


@pytest.mark.parametrize("logprob", [float("nan"), float("inf"), None])
async def test_non_finite_logprobs_are_engine_errors(plan_of: Planner, tmp_path: Path, logprob: float | None) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Nth(Oracle(plan), Reply("1234", logprob=logprob), at=1))

    await run(plan, tmp_path / "run", engines)

    assert outcomes(tmp_path / "run", "bf16") == {"correct": 5, "engine_error": 1}
    failed = next(record for record in records(tmp_path / "run", "bf16") if record.error)
    assert failed.error
    assert failed.error.kind == "non_finite"
    assert failed.attempts == 1


async def test_a_server_that_fails_every_request_is_restarted_once_then_stopped(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(samples=12, requests={"max_attempts": 1, "max_in_flight": 1})
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = Nth(oracle, Reply(status=500), every=1)

    manifest = await run(plan, tmp_path / "run", engines)

    assert engines.launches == ["bf16", "fp8", "fp8"]
    assert manifest.variants["bf16"].status == "complete"
    assert manifest.variants["fp8"].status == "stopped"
    assert manifest.variants["fp8"].launches == 2
    assert "5 requests in a row failed" in str(manifest.variants["fp8"].reason)
    assert outcomes(tmp_path / "run", "fp8") == {"engine_error": 10}


async def test_a_server_that_dies_midway_costs_no_answer(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(samples=12)
    oracle = Oracle(plan)
    engines = ScriptedEngines(Nth(oracle, Reply("dying now", die=True), at=5))

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.status == "complete"
    assert engines.launches == ["bf16", "bf16", "fp8"]
    assert manifest.variants["bf16"].launches == 2
    [restarted] = [finding for finding in manifest.variants["bf16"].findings if finding.code == "engine_restarted"]
    assert restarted.level == "warning"
    assert "the engine stopped" in restarted.message
    assert "engine_restarted" not in {finding.code for finding in manifest.variants["fp8"].findings}
    assert outcomes(tmp_path / "run", "bf16") == {"correct": 12}
    lines = (tmp_path / "run" / "records" / "bf16.jsonl").read_text().splitlines()
    assert len(lines) == 12
    asked = Counter(oracle.ids(engines.servers["bf16"]))
    assert len(asked) == 12
    assert max(asked.values()) <= 2


async def test_a_request_that_kills_every_server_costs_its_own_answer_only(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(samples=12)
    oracle = Oracle(plan)
    deadly = plan.samples[4].sample_id

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = oracle(prompt, body)
        reply.die = not is_smoke(body) and oracle.sample(prompt).sample_id == deadly
        reply.delay_s = 0.05
        return reply

    engines = ScriptedEngines(oracle)
    engines.handlers["bf16"] = handler
    out = tmp_path / "run"

    manifest = await run(plan, out, engines)

    assert manifest.variants["bf16"].status == "stopped"
    assert manifest.variants["fp8"].status == "complete"
    failed = [record for record in records(out, "bf16") if record.outcome == "engine_error"]
    assert [record.sample_id for record in failed] == [deadly]

    manifest = await run(plan, out, engines, resume=True)

    assert manifest.status == "complete"
    assert outcomes(out, "bf16") == {"correct": 11, "engine_error": 1}


async def test_a_server_that_hangs_is_restarted_once_then_stopped(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(requests={"timeout_s": 0.3, "max_attempts": 1})
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["fp8"] = Nth(oracle, Reply(hang=True), every=3)

    manifest = await run(plan, tmp_path / "run", engines)

    assert engines.launches == ["bf16", "fp8", "fp8"]
    assert manifest.variants["fp8"].status == "stopped"
    assert "no whole answer within 0.3 s" in str(manifest.variants["fp8"].reason)
    assert manifest.variants["bf16"].status == "complete"
    kinds = Counter(record.error.kind for record in records(tmp_path / "run", "fp8") if record.error)
    assert kinds == {"timeout": 1}


async def test_a_server_that_does_not_start_again_leaves_the_variant_stopped(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    oracle = Oracle(plan)
    engines = ScriptedEngines(oracle)
    engines.handlers["bf16"] = Nth(oracle, Reply("dying now", die=True), at=3)
    engines.fail_to_start["bf16"] = (2, "bf16: out of memory")

    manifest = await run(plan, tmp_path / "run", engines)

    assert manifest.variants["bf16"].status == "stopped"
    assert "started once more: bf16: out of memory" in str(manifest.variants["bf16"].reason)
    assert manifest.variants["fp8"].status == "complete"
    assert outcomes(tmp_path / "run", "bf16")["correct"] > 0


async def test_a_candidate_that_does_not_start_fails_alone(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", "fp8", "int8"])
    engines = ScriptedEngines(Oracle(plan))
    engines.fail_to_start["fp8"] = (1, "fp8: the engine stopped (exit code 1)")

    manifest = await run(plan, tmp_path / "run", engines)

    statuses = {name: variant.status for name, variant in manifest.variants.items()}
    assert statuses == {"bf16": "complete", "fp8": "failed", "int8": "complete"}
    assert manifest.variants["fp8"].reason == "fp8: the engine stopped (exit code 1)"
    assert manifest.status == "incomplete"


async def test_a_baseline_that_does_not_start_ends_the_run(plan_of: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.fail_to_start["bf16"] = (1, "bf16: the engine stopped (exit code 1)")

    with pytest.raises(EngineError, match="exit code 1") as caught:
        await run(plan_of(), tmp_path / "run", engines)

    assert caught.value.exit_code == 3
    assert caught.value.log_tail == "last line of the log"
    manifest = RunDirectory(tmp_path / "run").read_manifest()
    assert (manifest.status, manifest.variants["bf16"].status) == ("incomplete", "failed")
    assert manifest.variants["fp8"].status == "planned"


@pytest.mark.parametrize(
    ("variant", "options", "code"),
    [
        ("fp8", {"cache_dtype": "bfloat16"}, "dtype_mismatch"),
        ("fp8", {"capacity_tokens": 1_000_000}, "capacity_unchanged"),
        ("fp8", {"perplexity_logprob": -8.0}, "smoke_failed"),
        ("fp8", {"perplexity_logprob": float("nan")}, "smoke_failed"),
        ("fp8", {"perplexity_logprob": None}, "smoke_failed"),
    ],
)
async def test_a_candidate_that_does_something_else_is_refused_unless_accepted(
    plan_of: Planner, tmp_path: Path, variant: str, options: dict[str, Any], code: str
) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.options[variant] = options

    manifest = await run(plan_of(), tmp_path / "refused", engines)

    assert manifest.variants[variant].status == "refused"
    assert code in str(manifest.variants[variant].reason)
    assert code in [finding.code for finding in manifest.variants[variant].findings if finding.level == "error"]
    assert records(tmp_path / "refused", variant) == []

    manifest = await run(plan_of(accept_findings=[code]), tmp_path / "accepted", engines)

    assert manifest.variants[variant].status == "complete"
    assert code in [finding.code for finding in manifest.variants[variant].findings if finding.level == "error"]


async def test_a_refused_variant_is_measured_on_resume_once_accepted(plan_of: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.options["fp8"] = {"capacity_tokens": 1_000_000}
    await run(plan_of(), tmp_path / "run", engines)

    plan = plan_of(accept_findings=["capacity_unchanged"])
    manifest = await run(plan, tmp_path / "run", engines, resume=True)

    assert manifest.status == "complete"
    assert engines.launches == ["bf16", "fp8", "fp8"]


async def test_dead_emulation_is_refused(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16", "int8"])
    engines = ScriptedEngines(Oracle(plan))
    engines.dead_emulation.add("int8")
    manifest = await run(plan, tmp_path / "run", engines)
    assert manifest.variants["int8"].status == "refused"
    assert "emulation_dead" in str(manifest.variants["int8"].reason)


@pytest.mark.parametrize(
    ("options", "code"), [({"cache_dtype": "fp8"}, "dtype_mismatch"), ({"perplexity_logprob": -9.0}, "smoke_failed")]
)
async def test_a_baseline_that_does_something_else_ends_the_run(
    plan_of: Planner, tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    engines.options["bf16"] = options

    with pytest.raises(FactsError, match=code) as caught:
        await run(plan_of(), tmp_path / "run", engines)

    assert caught.value.exit_code == 3
    assert engines.launches == ["bf16"]
    assert not engines.servers["bf16"].is_up
    assert RunDirectory(tmp_path / "run").read_manifest().status == "incomplete"


async def test_an_existing_run_is_refused_without_resume(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Oracle(plan))
    await run(plan, tmp_path / "run", engines)
    before = (tmp_path / "run" / "manifest.json").read_text()

    with pytest.raises(RunDirectoryError, match="holds a run already"):
        await run(plan, tmp_path / "run", engines)

    assert (tmp_path / "run" / "manifest.json").read_text() == before


async def test_a_second_sweep_into_the_same_folder_is_refused(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    started = asyncio.Event()
    oracle = Oracle(plan)

    def slow(prompt: list[int], body: dict[str, Any]) -> Reply:
        started.set()
        reply = oracle(prompt, body)
        reply.delay_s = 0.05
        return reply

    first = asyncio.create_task(run(plan, tmp_path / "run", ScriptedEngines(slow)))
    await started.wait()
    others = ScriptedEngines(oracle)
    for resume in (False, True):
        with pytest.raises(RunDirectoryError, match=r"another sweep .* is writing here"):
            await run(plan, tmp_path / "run", others, resume=resume)
    manifest = await first

    assert others.launches == []
    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "bf16") == {"correct": 6}


async def test_cancelling_stops_the_engine_and_keeps_the_answers(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(requests={"max_in_flight": 1})
    oracle = Oracle(plan)
    fourth = asyncio.Event()
    nth = Nth(oracle, Reply(hang=True), at=3)

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        reply = nth(prompt, body)
        if reply.hang:
            fourth.set()
        return reply

    engines = ScriptedEngines(handler)
    task = asyncio.create_task(run(plan, tmp_path / "run", engines))
    await fourth.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not engines.servers["bf16"].is_up
    assert len(records(tmp_path / "run", "bf16")) == 3
    manifest = RunDirectory(tmp_path / "run").read_manifest()
    assert manifest.status == "incomplete"
    assert (manifest.variants["bf16"].status, manifest.variants["bf16"].reason) == ("stopped", "interrupted")

    manifest = await run(plan, tmp_path / "run", engines, resume=True)
    assert manifest.status == "complete"
    assert outcomes(tmp_path / "run", "bf16") == {"correct": 6}


def answers(out: Path) -> dict[str, dict[str, tuple[str, str]]]:
    return {
        variant: {record.sample_id: (record.outcome, record.output) for record in records(out, variant)}
        for variant in ("bf16", "fp8")
    }


def cuts(text: str) -> Iterator[tuple[int, int]]:
    """(bytes kept, whole records in them): every boundary of records, and a place within each record."""
    at = 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        yield at, number
        yield at + (len(line) // 2 if number % 2 else len(line) - 1), number
        at += len(line)


async def test_a_killed_run_resumes_to_the_same_records_wherever_it_was_killed(
    plan_of: Planner, tmp_path: Path
) -> None:
    plan = plan_of(samples=4, questions_per_haystack=2)
    oracle = Oracle(plan)
    whole = tmp_path / "whole"
    await run(plan, whole, ScriptedEngines(oracle))
    unbroken = answers(whole)
    texts = {name: (whole / "records" / f"{name}.jsonl").read_text() for name in ("bf16", "fp8")}
    manifest = RunDirectory(whole).read_manifest()

    for killed in ("bf16", "fp8"):
        for kept, whole_records in cuts(texts[killed]):
            out = tmp_path / f"{killed}-{kept}"
            (out / "records").mkdir(parents=True)
            (out / "records" / f"{killed}.jsonl").write_text(texts[killed][:kept])
            if killed == "fp8":
                (out / "records" / "bf16.jsonl").write_text(texts["bf16"])
            RunDirectory(out).write_manifest(manifest.model_copy(update={"status": "running"}))
            engines = ScriptedEngines(oracle)

            resumed = await run(plan, out, engines, resume=True)

            assert resumed.status == "complete"
            assert answers(out) == unbroken
            assert engines.requests() == (4 if killed == "bf16" else 0) + 4 - whole_records
            for name in ("bf16", "fp8"):
                assert len((out / "records" / f"{name}.jsonl").read_text().splitlines()) == 4


async def test_resuming_a_complete_run_asks_nothing(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)))
    engines = ScriptedEngines(Oracle(plan))
    manifest = await run(plan, tmp_path / "run", engines, resume=True)
    assert manifest.status == "complete"
    assert engines.launches == []


async def test_resume_without_a_run_begins_one(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)), resume=True)
    assert manifest.status == "complete"


async def test_answers_without_a_manifest_are_nobodys(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)))
    (tmp_path / "run" / "manifest.json").unlink()
    for resume in (False, True):
        with pytest.raises(RunDirectoryError, match=r"no manifest\.json that says what was asked"):
            await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)), resume=resume)


async def partial(plan: Plan, out: Path, engines: ScriptedEngines) -> None:
    """A run of which two answers of fp8 are missing."""
    await run(plan, out, engines)
    path = out / "records" / "fp8.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 7}, "seed was 0 in this run and is 7 now"),
        ({"samples": 9}, "samples was 6 in this run and is 9 now"),
        ({"context_lengths": [768]}, r"context_lengths\.0 was 512 in this run and is 768 now"),
        ({"variants": ["bf16", "int8"]}, r"variants\.1\.name was 'fp8' in this run and is 'int8' now"),
        ({"engine": {"args": {"max-num-seqs": 3}}}, r"engine\.args\.max-num-seqs was None in this run and is 3 now"),
    ],
)
async def test_resume_refuses_another_configuration(
    plan_of: Planner, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    await partial(plan_of(), tmp_path / "run", engines)
    with pytest.raises(ResumeError, match=message):
        await run(plan_of(**changes), tmp_path / "run", engines, resume=True)
    assert len(records(tmp_path / "run", "fp8")) == 4


async def test_resume_refuses_another_model_and_other_text(
    plan_of: Planner, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = ScriptedEngines(Oracle(plan_of()))
    await partial(plan_of(), tmp_path / "run", engines)

    other = plan_of()
    other.tasks["niah_single"].metadata["keys"] = 3  # type: ignore[index]
    with pytest.raises(ResumeError, match="task/niah_single is not the one this run was made with"):
        await run(other, tmp_path / "run", engines, resume=True)
    del other.tasks["niah_single"].metadata["keys"]  # type: ignore[attr-defined]

    (checkpoint / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ResumeError, match=r"model/model\.safetensors is not the one this run was made with"):
        await run(plan_of(), tmp_path / "run", engines, resume=True)


async def test_resume_refuses_other_facts_and_loses_nothing(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    await partial(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)))
    engines = ScriptedEngines(Oracle(plan))
    engines.options["fp8"] = {"version": "0.99"}

    with pytest.raises(ResumeError, match=r"engine_version of fp8 was 'scripted' in this run and is '0\.99' now"):
        await run(plan, tmp_path / "run", engines, resume=True)

    assert not engines.servers["fp8"].is_up
    assert engines.servers["fp8"].asked == []
    assert len(records(tmp_path / "run", "fp8")) == 4
    manifest = await run(plan, tmp_path / "run", ScriptedEngines(Oracle(plan)), resume=True)
    assert manifest.status == "complete"


async def test_retry_errors_asks_engine_errors_again(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    oracle = Oracle(plan)
    out = tmp_path / "run"
    await run(plan, out, ScriptedEngines(Nth(oracle, Reply(status=400), every=2)))
    assert outcomes(out, "bf16") == {"correct": 3, "engine_error": 3}

    engines = ScriptedEngines(oracle)
    await run(plan, out, engines, resume=True)
    assert engines.requests() == 0

    await run(plan, out, engines, resume=True, retry_errors=True)
    assert engines.requests() == 3
    assert outcomes(out, "bf16") == {"correct": 6}


async def test_retry_errors_survives_a_server_that_dies_meanwhile(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"], requests={"max_in_flight": 1, "max_attempts": 1})
    oracle = Oracle(plan)
    out = tmp_path / "run"
    await run(plan, out, ScriptedEngines(Nth(oracle, Reply(status=400), every=1)))

    engines = ScriptedEngines(Nth(oracle, Reply("dying now", die=True), at=2))
    manifest = await run(plan, out, engines, resume=True, retry_errors=True)

    assert manifest.status == "complete"
    assert outcomes(out, "bf16") == {"correct": 6}


async def test_a_full_disk_ends_the_run_and_resume_finishes_it(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of()
    oracle = Oracle(plan)
    out = tmp_path / "run"
    engines = ScriptedEngines(oracle)
    append = RunDirectory.append
    appended = 0

    def full(file: Any, data: bytes) -> None:
        file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as disk:

        def until_full(self: RunDirectory, record: Record) -> None:
            nonlocal appended
            appended += 1
            if appended > 8:
                disk.setattr("kveval.run.directory._write_all", full)
            append(self, record)

        disk.setattr(RunDirectory, "append", until_full)
        with pytest.raises(StorageError, match="the disk is full; free some space") as caught:
            await run(plan, out, engines)

    assert caught.value.exit_code == 2
    assert all(not server.is_up for server in engines.servers.values())
    assert len(records(out, "bf16")) == 6
    text = (out / "records" / "fp8.jsonl").read_text()
    assert len(text.splitlines()) == 2
    assert text.endswith("\n")

    before = engines.requests()
    manifest = await run(plan, out, engines, resume=True)
    assert manifest.status == "complete"
    assert engines.requests() == before + 4
    assert outcomes(out, "fp8") == {"correct": 6}


async def test_a_broken_record_in_the_middle_is_named_and_nothing_is_touched(plan_of: Planner, tmp_path: Path) -> None:
    plan = plan_of(variants=["bf16"])
    engines = ScriptedEngines(Oracle(plan))
    await run(plan, tmp_path / "run", engines)
    path = tmp_path / "run" / "records" / "bf16.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], lines[2][:50] + "\n", *lines[3:]]))
    before = (tmp_path / "run" / "manifest.json").read_text()

    with pytest.raises(RunDirectoryError, match=r"bf16\.jsonl:3: "):
        await run(plan, tmp_path / "run", engines, resume=True)

    assert (tmp_path / "run" / "manifest.json").read_text() == before
