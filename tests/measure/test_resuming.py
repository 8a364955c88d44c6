"""What a run resumes from, wherever it ended, and what it refuses to resume."""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Oracle, Reply, ScriptedEngines
from support.sweeps import Nth, Planner, outcomes, records, run

from kveval.errors import ResumeError, RunDirectoryError, StorageError
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.run.directory import RunDirectory
from kveval.run.records import Record


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
    with pytest.raises(ResumeError, match="task/niah_single changed since this run was made"):
        await run(other, tmp_path / "run", engines, resume=True)
    del other.tasks["niah_single"].metadata["keys"]  # type: ignore[attr-defined]

    (checkpoint / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ResumeError, match=r"model/model\.safetensors changed since this run was made"):
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
    manifest = await run(plan, out, engines, resume=True)
    assert engines.requests() == 0
    assert manifest.status == "incomplete"

    manifest = await run(plan, out, engines, resume=True, retry_errors=True)
    assert engines.requests() == 3
    assert outcomes(out, "bf16") == {"correct": 6}
    assert (manifest.status, manifest.variants["bf16"].reason) == ("complete", None)


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


@pytest.mark.parametrize("damage", ["torn", "zeros"])
async def test_a_broken_record_in_the_middle_is_named_kept_and_asked_again(
    plan_of: Planner, tmp_path: Path, damage: str
) -> None:
    plan, out = plan_of(variants=["bf16"]), tmp_path / "run"
    oracle = Oracle(plan)
    await run(plan, out, ScriptedEngines(oracle))
    path = RunDirectory(out).records_path("bf16")
    lines = path.read_text().splitlines(keepends=True)
    broken = (lines[2][:50] if damage == "torn" else "\0" * 4096) + "\n"
    path.write_text("".join([*lines[:2], broken, *lines[3:]]))
    with pytest.raises(RunDirectoryError, match=r"bf16\.jsonl:3: .*use: kveval sweep --resume"):
        records(out, "bf16")

    engines = ScriptedEngines(oracle)
    notes = Notes()
    manifest = await run(plan, out, engines, resume=True, reporter=notes)
    assert f"1 of 6 samples have no record ({json.loads(lines[2])['sample_id']})" in "\n".join(notes.texts)
    assert manifest.status == "complete"
    assert outcomes(out, "bf16") == {"correct": 6}
    assert engines.requests() == 1
    assert (out / "set_aside" / "broken" / "records" / "bf16.jsonl").read_text() == broken


class Notes(SilentReporter):
    """Keeps what the user is told."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def note(self, message: str) -> None:
        self.texts.append(message)
