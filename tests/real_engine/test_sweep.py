"""`kveval sweep` as a user runs it, on a real vLLM server with a real model: answers, facts, interruptions."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from support.processor import needs_avx512

from kveval.engines.variants import local_cpu_flags
from kveval.judge.evidence.speculation import parting
from kveval.judge.run_data import load_run
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest
from kveval.run.records import Record, unpack_logprobs
from kveval.tasks.assembly.prompt import PromptFormat

pytestmark = [
    pytest.mark.vllm,
    needs_avx512,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
    pytest.mark.skipif(local_cpu_flags() == frozenset(), reason="written for what vLLM's CPU build stores"),
]

SETTINGS: dict[str, Any] = {
    "context_lengths": [512, 1024],
    "tasks": ["niah_single", "niah_multikey"],
    "samples": 10,
    "questions_per_haystack": 10,
    "cold_check": 0,
    "haystack": "generated",
    "engine": {"kv_cache_gib": 1},
}
VARIANTS: list[Any] = ["bf16", {"name": "fp8", "control": "emulated"}, "int8", "int2"]
NAMES = ["bf16", "bf16-aa", "fp8", "fp8-control", "int8", "int2"]
SAMPLES = 40


@dataclass(frozen=True)
class Command:
    """One `kveval` process, its engines told from others' by the process id in their mark."""

    process: subprocess.Popen[str]
    output: Path

    def wait(self, timeout_s: float = 900) -> int:
        return self.process.wait(timeout_s)

    def said(self) -> str:
        return self.output.read_text()

    def engine_processes(self) -> list[int]:
        mark = f"KVEVAL_ENGINE_MARK={self.process.pid}-".encode()
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in environment.read_bytes():
                    found.append(int(environment.parent.name))
        return found


@dataclass(frozen=True)
class Ended:
    """What was seen when a command had ended: its exit code, and engine processes left some seconds later."""

    code: int
    said: str
    left: list[int]
    records: list[Record]


@contextlib.contextmanager
def kveval(directory: Path, settings: dict[str, Any], *flags: str) -> Iterator[Command]:
    """`kveval sweep` in a process group of its own, as a terminal starts it. Killed when a test fails meanwhile."""
    directory.mkdir(parents=True, exist_ok=True)
    config, output = directory / "config.yaml", directory / "output.txt"
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-c", "from kveval.cli.app import main; main()", "sweep", str(config)]
    with output.open("w") as file:
        process = subprocess.Popen(
            [*command, "--out", str(directory / "run"), *flags],
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "COLUMNS": "200"},
        )
    started = Command(process, output)
    try:
        yield started
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


def ended(command: Command, run: Path, timeout_s: float = 900) -> Ended:
    code = command.wait(timeout_s)
    until(lambda: not command.engine_processes(), timeout_s=30, failure=None)
    return Ended(code, command.said(), command.engine_processes(), list(RunDirectory(run).records("bf16")))


def until(condition: Callable[[], bool], *, timeout_s: float, failure: Callable[[], str] | None) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            if failure is not None:
                pytest.fail(failure())
            return
        time.sleep(0.1)


def answered(run: Path) -> int:
    path = RunDirectory(run).records_path("bf16")
    return path.read_bytes().count(b"\n") if path.exists() else 0


def interrupt(command: Command, run: Path, number: signal.Signals, *, after: int) -> Ended:
    """Sends a signal to the whole foreground group, as a terminal does, once `after` records are there."""
    until(
        lambda: answered(run) >= after or command.process.poll() is not None,
        timeout_s=300,
        failure=lambda: f"no records:\n{command.said()}",
    )
    os.killpg(command.process.pid, number)
    return ended(command, run, 60)


@dataclass(frozen=True)
class Run:
    """A sweep that was interrupted, gone on with, killed, and gone on with to its end."""

    path: Path
    interrupted: Ended
    killed: Ended
    finished: Ended
    manifest: Manifest
    records: dict[str, dict[str, Record]]

    def facts(self, variant: str) -> Facts:
        return self.manifest.variants[variant].facts

    def score(self, variant: str) -> float:
        return float(np.mean([record.score for record in self.records[variant].values()]))


@pytest.fixture(scope="module")
def settings(smollm2: Path) -> dict[str, Any]:
    return {"model": str(smollm2), **SETTINGS}


@pytest.fixture(scope="module")
def run(one_engine: None, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Every kind of variant in one sweep, broken twice while the baseline is asked: a launch costs most of a minute.

    int2 is measured though its smoke answers are garbage.
    """
    directory = tmp_path_factory.mktemp("sweep")
    path = directory / "run"
    config = {**settings, "variants": VARIANTS, "accept_findings": ["smoke_failed"]}
    with kveval(directory, config) as command:
        interrupted = interrupt(command, path, signal.SIGINT, after=3)
    with kveval(directory, config, "--resume") as command:
        killed = interrupt(command, path, signal.SIGKILL, after=len(interrupted.records) + 3)
    with kveval(directory, config, "--resume") as command:
        finished = ended(command, path)
    stored = RunDirectory(path)
    manifest = stored.read_manifest()
    records = {name: {r.sample_id: r for r in stored.records(name)} for name in manifest.variants}
    return Run(path, interrupted, killed, finished, manifest, records)


def test_ctrl_c_while_asking_keeps_records_and_leaves_no_process(run: Run) -> None:
    assert run.interrupted.code == 130, run.interrupted.said
    assert "--resume" in run.interrupted.said
    assert "Traceback" not in run.interrupted.said
    assert run.interrupted.left == []
    assert 3 <= len(run.interrupted.records) < SAMPLES


def test_a_killed_sweep_takes_its_engine_with_it(run: Run) -> None:
    assert run.killed.code == -signal.SIGKILL, run.killed.said
    assert run.killed.left == []
    assert len(run.interrupted.records) + 3 <= len(run.killed.records) < SAMPLES


def test_a_resumed_run_equals_an_unbroken_one(run: Run) -> None:
    kept = run.killed.records
    assert run.finished.records[: len(kept)] == kept
    assert run.manifest.variants["bf16"].launches == 3
    # The A/A run asked the same samples of the same engine without a break.
    assert run.manifest.variants["bf16-aa"].launches == 1

    resumed = {record.sample_id: record for record in run.finished.records}
    unbroken = run.records["bf16-aa"]
    assert len(resumed) == len(run.finished.records) == SAMPLES
    assert resumed.keys() == unbroken.keys()
    differing = []
    for key, record in unbroken.items():
        assert resumed[key].prompt_tokens == record.prompt_tokens
        if resumed[key].output != record.output:
            differing.append(key)
            continue
        assert (resumed[key].outcome, resumed[key].score) == (record.outcome, record.score)
        assert resumed[key].finish_reason == record.finish_reason
    # What is batched together moves the last bits of BF16: greedy outputs may part, but at a tie only. In A/A runs of
    # 640 samples 23 parted, by 0.25 nats at most, one step of BF16 logits; native FP8 parts by up to 6.9.
    tables = load_run(run.path).records
    for key in differing:
        parted = parting(tables["bf16-aa"].loc[[key]], tables["bf16"].loc[[key]])
        assert parted.most_nats is not None, key
        assert parted.most_nats < 0.5, key


def test_every_variant_answers_every_sample(run: Run) -> None:
    assert run.finished.code == 0, run.finished.said
    assert run.manifest.status == "complete"
    assert {name: variant.status for name, variant in run.manifest.variants.items()} == dict.fromkeys(NAMES, "complete")
    sample_ids = {sample.sample_id for sample in RunDirectory(run.path).samples()}
    assert len(sample_ids) == SAMPLES
    for name in NAMES:
        assert run.records[name].keys() == sample_ids
        assert not [record.error for record in run.records[name].values() if record.error]


def test_nothing_is_left_running(run: Run) -> None:
    assert run.finished.left == []


def test_facts_come_from_the_server(run: Run) -> None:
    for name in NAMES:
        facts = run.facts(name)
        assert facts.engine_version
        assert facts.device == "cpu"
        assert facts.attention_backend == "CPU_ATTN"
        assert facts.prefix_caching is True
        assert (facts.kv_capacity_tokens or 0) > 10_000
        assert (facts.startup_seconds or 0) > 1
    assert run.facts("bf16").effective_cache_dtype == "bfloat16"
    assert run.facts("bf16").storage == "native"


def test_native_fp8_is_stored_as_fp8_in_half_the_memory(run: Run) -> None:
    facts = run.facts("fp8")
    assert facts.effective_cache_dtype in ("fp8", "fp8_e4m3")
    assert (facts.storage, facts.scales) == ("native", "1.0")
    assert facts.kv_capacity_ratio == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize("name", [name for name in NAMES if name in ("int8", "int2", "fp8-control")])
def test_emulation_says_so_and_was_live(run: Run, name: str) -> None:
    facts = run.facts(name)
    assert (facts.storage, facts.emulation_live) == ("emulated", True)
    assert facts.effective_cache_dtype == "bfloat16"
    assert facts.emulation
    assert facts.kv_capacity_ratio == pytest.approx(1.0, abs=0.01)


def test_only_int2_has_error_findings(run: Run) -> None:
    errors = {
        name: [finding.code for finding in variant.findings if finding.level == "error"]
        for name, variant in run.manifest.variants.items()
    }
    assert {name for name, codes in errors.items() if codes} <= {"int2"}


def test_the_engine_saw_exactly_the_planned_prompt(run: Run, smollm2: Path) -> None:
    samples = {sample.sample_id: sample for sample in RunDirectory(run.path).samples()}
    start = PromptFormat.load(smollm2).first_token_ids
    for sample in samples.values():
        assert sample.context_length - 8 <= sample.prompt_tokens <= sample.context_length
        assert tuple(sample.first_token_ids[: len(start)]) == start
    for name in NAMES:
        for record in run.records[name].values():
            assert record.prompt_tokens == samples[record.sample_id].prompt_tokens


def test_a_haystack_is_prefilled_once(run: Run) -> None:
    for name in NAMES[1:]:  # the baseline's were primed again after each break
        haystacks: dict[str, list[Record]] = {}
        for record in sorted(run.records[name].values(), key=lambda record: record.sent_at):
            haystacks.setdefault(record.haystack_id, []).append(record)
        assert len(haystacks) == SAMPLES // SETTINGS["questions_per_haystack"]
        for _, *others in haystacks.values():
            assert all(record.cached_tokens for record in others)
        counters = run.manifest.variants[name].counters
        assert counters["prompt_tokens_computed"] < counters["prompt_tokens"] / 2
        assert counters["preemptions"] == 0


def test_logprobs_are_finite_and_complete(run: Run) -> None:
    for name in NAMES:
        for record in run.records[name].values():
            assert record.logprobs is not None
            ids, values = unpack_logprobs(record.logprobs)
            assert ids.shape == values.shape == (record.output_tokens, 20)
            assert np.isfinite(values).all()
            assert (values <= 0).all()
            assert len(record.output_token_ids) == record.output_tokens
            # Greedy: what was sampled is what was most likely.
            assert ids[:, 0].tolist() == record.output_token_ids


def test_timestamps_add_up(run: Run) -> None:
    for record in run.records["bf16"].values():
        assert sum(record.chunk_tokens) == record.output_tokens
        assert record.token_ms == sorted(record.token_ms)
        assert record.ttft_ms is not None
        assert 0 < record.ttft_ms <= record.total_ms


def first_logprobs(run: Run, variant: str) -> np.ndarray:
    """float32 [samples, 20]: the first output token's alternatives, in the order of sample ids."""
    packed = [record.logprobs or "" for _, record in sorted(run.records[variant].items())]
    return np.stack([unpack_logprobs(text)[1][0] for text in packed])


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("bf16")])
def test_a_quantized_cache_moves_logprobs(run: Run, name: str) -> None:
    moved = np.abs(first_logprobs(run, name) - first_logprobs(run, "bf16")).mean()
    noise = np.abs(first_logprobs(run, "bf16-aa") - first_logprobs(run, "bf16")).mean()
    assert moved > noise


def test_bf16_finds_needles_and_int2_finds_none(run: Run) -> None:
    assert run.score("bf16") > 0.3
    assert run.score("int8") > 0.3
    assert run.score("int2") < 0.1


def test_the_report_names_every_variant(run: Run) -> None:
    report = (run.path / "report.html").read_text()
    assert all(name in report for name in NAMES)
    assert "emulated" in report


def test_sigterm_during_startup_leaves_no_process(one_engine: None, settings: dict[str, Any], tmp_path: Path) -> None:
    with kveval(tmp_path, {**settings, "variants": ["bf16"]}) as command:
        until(
            lambda: len(command.engine_processes()) > 0 or command.process.poll() is not None,
            timeout_s=180,
            failure=command.said,
        )
        time.sleep(5)
        started = command.engine_processes()
        command.process.send_signal(signal.SIGTERM)
        seen = ended(command, tmp_path / "run", 60)

    assert started
    assert seen.code == 143, seen.said
    assert seen.left == []
    assert "Traceback" not in seen.said
    assert RunDirectory(tmp_path / "run").read_manifest().status == "incomplete"


def test_an_unknown_engine_flag_ends_with_a_hint_and_the_log(
    one_engine: None, settings: dict[str, Any], tmp_path: Path
) -> None:
    engine = {**settings["engine"], "args": {"no-such-flag": True}}
    with kveval(tmp_path, {**settings, "variants": ["bf16"], "engine": engine}) as command:
        seen = ended(command, tmp_path / "run", 300)

    assert seen.code == 3, seen.said
    assert "the engine does not know this flag; see engine.args" in seen.said
    assert "unrecognized arguments: --no-such-flag" in seen.said
    assert seen.left == []


def test_a_dtype_the_cpu_corrupts_is_refused_before_any_launch(settings: dict[str, Any], tmp_path: Path) -> None:
    candidate = {"name": "raw", "kv_cache_dtype": "int8_per_token_head"}
    with kveval(tmp_path, {**settings, "variants": ["bf16", candidate]}) as command:
        assert command.wait(120) == 2, command.said()

    error = next(line for line in command.said().splitlines() if line.startswith("error: "))
    assert "variants.raw" in error
    assert "'int8_per_token_head'" in error
    assert "emulate: {format: int8, granularity: per_token_head}" in error
    assert not (tmp_path / "run").exists()
