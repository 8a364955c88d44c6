"""Load against scripted servers: what is counted, what is left out, what resuming keeps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from support.scripted import Oracle, Reply, ScriptedEngines, ScriptedServer, always

from kveval.config.load import LoadConfig
from kveval.config.sweep import validate_config
from kveval.engines.client.client import Client
from kveval.engines.installation import Installation
from kveval.engines.metrics import gauges
from kveval.errors import ConfigError, PlanError, ResumeError, RunDirectoryError
from kveval.load.drive import drive
from kveval.load.plan import LoadPlan, describe_load, load_plan_of, make_load_plan
from kveval.load.prompts import arrivals_s, prompts, warmup_prompts
from kveval.load.run import run_load
from kveval.load.sample import device_bytes
from kveval.load.stage import LoadStage
from kveval.load.summary import summarize
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory
from kveval.run.load_results import Level, LoadDocument, read_load

TOKENS = tuple(range(100, 400))
OUTPUT_TOKENS = 5
SMALL = {
    "concurrency": [1, 3], "prompt_lengths": [32, 64], "output_tokens": OUTPUT_TOKENS, "requests": 6,
    "warmup_requests": 1, "sample_interval_s": 0.05,
}  # fmt: skip
Planner = Callable[..., LoadPlan]


def words(count: int = OUTPUT_TOKENS, **reply: Any) -> Reply:
    return Reply(" ".join(["word"] * count), finish_reason="length", **reply)


def level(**changes: Any) -> Level:
    values = {
        "kind": "closed", "concurrency": 2, "prompt_lengths": [64], "output_tokens": OUTPUT_TOKENS, "requests": 6,
        "warmup_requests": 2, "seed": 0,
    }  # fmt: skip
    return Level.model_validate(values | changes)


@pytest.fixture(autouse=True)
def _stand_in_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.load.stage.ordinary_tokens", lambda _: TOKENS)
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)


@pytest.fixture
def load_plan(stand_in: None, checkpoint: Path, installation: Installation) -> Planner:
    def plan(load: dict[str, Any] | None = None, **changes: Any) -> LoadPlan:
        config = {
            "model": str(checkpoint), "variants": ["bf16", "fp8"], "context_lengths": [512], "tasks": ["niah_single"],
            "load": SMALL | (load or {}), "requests": {"timeout_s": 5.0},
        }  # fmt: skip
        return make_load_plan(validate_config(config | changes), installation)

    return plan


def is_smoke(body: dict[str, Any]) -> bool:
    return body.get("cache_salt") == "kveval-smoke"


async def measure(plan: LoadPlan, out: Path, engines: ScriptedEngines, *, resume: bool = False) -> LoadDocument:
    return await run_load(plan, out, resume=resume, on_status=lambda _: None, open_engine=engines)  # type: ignore[arg-type]


def client_of(server: ScriptedServer) -> Client:
    requests = validate_config({"model": "/m", "variants": ["bf16"], "context_lengths": [64], "tasks": ["x"]}).requests
    once = requests.model_copy(update={"max_attempts": 1, "logprobs": 0, "timeout_s": 5.0})
    return Client(server.base_url, "kveval", once, lambda: None)


async def test_what_a_level_measures() -> None:
    async with ScriptedServer(always(words(delay_s=0.05, token_delay_s=0.02))) as server, client_of(server) as client:
        driven = await drive(level(), client, TOKENS, salt="s", processes=[psutil.Process()], sample_interval_s=0.05)
        assert server.most_running == 2
        bodies = server.requests
    result = summarize(driven)

    assert [body["ignore_eos"] for body in bodies] == [True] * 8
    assert {body["max_tokens"] for body in bodies} == {OUTPUT_TOKENS}
    assert all("logprobs" not in body for body in bodies)
    assert result.outcomes == {"completed": 6}
    assert result.warmup_outcomes == {"completed": 2}
    assert result.prompt_tokens == 6 * 64
    assert result.output_tokens == 6 * OUTPUT_TOKENS
    assert result.ttft_ms.n == result.itl_ms.n == result.latency_ms.n == 6
    assert result.gap_ms.n == 6 * (OUTPUT_TOKENS - 1)
    assert result.ttft_ms.median is not None
    assert result.itl_ms.median is not None
    assert result.ttft_ms.median >= 70
    assert 20 <= result.itl_ms.median < 60
    assert result.output_tokens_per_s == pytest.approx(result.output_tokens / result.duration_s, rel=1e-3)
    assert result.total_tokens_per_s == pytest.approx(
        (result.output_tokens + result.prompt_tokens) / result.duration_s, rel=1e-3
    )
    assert result.running is not None
    assert result.running.n >= 2
    assert result.kv_usage_percent is not None
    assert result.engine_rss_bytes is not None
    assert (result.engine_rss_bytes.peak or 0) > 1 << 20
    assert result.preemptions == result.prefix_hit_tokens == 0
    assert result.findings == []
    assert [row.outcome for row in result.requests] == ["completed"] * 6


async def test_errors_and_short_outputs_are_counted_and_time_nothing() -> None:
    seen = 0

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal seen
        seen += 1
        if seen == 3:
            return Reply(status=500, message="no such luck")
        return words(2) if seen == 4 else words()

    async with ScriptedServer(handler) as server, client_of(server) as client:
        driven = await drive(level(warmup_requests=0, concurrency=1), client, TOKENS, salt="s")
    result = summarize(driven)
    assert result.outcomes == {"completed": 4, "http_500": 1, "short_output": 1}
    assert result.ttft_ms.n == 4
    assert result.output_tokens == 4 * OUTPUT_TOKENS + 2
    finding = result.findings[0]
    assert (finding.level, finding.code) == ("warning", "load_failures")
    assert "of 6 requests 1 http_500, 1 short_output: HTTP 500: no such luck" in finding.message


async def test_hits_of_the_prefix_cache_are_a_finding() -> None:
    async with ScriptedServer(always(words())) as server, client_of(server) as client:
        await drive(level(), client, TOKENS, salt="the same")
        again = summarize(await drive(level(), client, TOKENS, salt="the same"))
        other = summarize(await drive(level(), client, TOKENS, salt="another"))
    assert again.prefix_hit_tokens == 6 * 48
    assert [finding.code for finding in again.findings] == ["load_prefix_hits"]
    assert "288 of 384 prompt tokens" in again.findings[0].message
    assert other.prefix_hit_tokens == 0


async def test_an_open_loop_does_not_wait_for_answers() -> None:
    arriving = level(kind="open", concurrency=None, request_rate=40.0, requests=8, warmup_requests=0)
    async with ScriptedServer(always(words(delay_s=1.0))) as server, client_of(server) as client:
        driven = await drive(arriving, client, TOKENS, salt="s")
        assert server.most_running >= 6
    expected = arrivals_s(arriving)
    assert expected[-1] == pytest.approx(8 / 40)
    sent = sorted(one.sent_s for one in driven.sent)
    # A busy machine sends late, never early.
    assert all(when >= due - 0.01 for when, due in zip(sent, expected, strict=True))


def test_arrivals_are_poisson_and_seeded() -> None:
    many = level(kind="open", concurrency=None, request_rate=10.0, requests=4000)
    times = np.array(arrivals_s(many))
    gaps = np.diff(times)
    assert list(times) == arrivals_s(many)
    assert arrivals_s(many.model_copy(update={"seed": 1})) != list(times)
    assert gaps.mean() == pytest.approx(0.1, rel=0.01)
    # Exponential gaps have a standard deviation of their mean.
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.08)


def test_prompts_are_unique_seeded_and_as_long_as_asked() -> None:
    mixed = level(prompt_lengths=[32, 64, 128], requests=30, warmup_requests=4)
    made = [prompt.tolist() for prompt in prompts(mixed, TOKENS)]
    assert made == [prompt.tolist() for prompt in prompts(mixed, TOKENS)]
    assert Counter(len(prompt) for prompt in made) == {32: 10, 64: 10, 128: 10}
    assert [len(prompt) for prompt in made] != sorted(len(prompt) for prompt in made)
    others = [prompt.tolist() for prompt in warmup_prompts(mixed, TOKENS)]
    others += [prompt.tolist() for prompt in prompts(mixed.model_copy(update={"concurrency": 4}), TOKENS)]
    first_blocks = [tuple(prompt[:16]) for prompt in made + others]
    assert len(set(first_blocks)) == len(first_blocks)
    assert {token for prompt in made for token in prompt} <= set(TOKENS)


async def test_a_measurement_end_to_end(load_plan: Planner, tmp_path: Path) -> None:
    plan = load_plan({"request_rates": [50.0]})
    engines = ScriptedEngines(always(words()))
    document = await measure(plan, tmp_path / "run", engines)

    assert engines.launches == ["bf16", "fp8"]
    assert document.is_complete
    stored = read_load(tmp_path / "run")
    assert stored == document
    names = [level.name for level in plan.levels]
    assert names == [
        "closed 1, 32 tokens", "closed 3, 32 tokens", "open 50/s, 32 tokens",
        "closed 1, 64 tokens", "closed 3, 64 tokens", "open 50/s, 64 tokens",
        "closed 1, mixed 32-64 tokens", "closed 3, mixed 32-64 tokens", "open 50/s, mixed 32-64 tokens",
        "longest, 512 tokens",
    ]  # fmt: skip
    for variant in document.variants.values():
        assert [result.level.name for result in variant.levels] == names
        assert variant.cold_start_s is not None
        assert variant.startup_s is not None
        assert variant.cold_start_s >= variant.startup_s
        assert all(result.outcomes == {"completed": result.level.requests} for result in variant.levels)
    assert document.variants["fp8"].facts.kv_capacity_ratio == 2.0
    # Both sides were sent the same, but for the salt.
    first, second = (
        [body for body in engines.servers[name].requests if not is_smoke(body)] for name in ("bf16", "fp8")
    )
    assert sorted(body["prompt"] for body in first) == sorted(body["prompt"] for body in second)
    described = describe_load(plan)
    assert described["requests"] == len(first) + len(second) - 2
    assert described["prefill_tokens"] == sum(len(body["prompt"]) for body in first + second) - 2 * 16


async def test_resume_measures_only_what_is_missing(load_plan: Planner, tmp_path: Path) -> None:
    out = tmp_path / "run"
    engines = ScriptedEngines(always(words()))
    first = await measure(load_plan(), out, engines)
    with pytest.raises(RunDirectoryError, match=r"holds load.json already; use: another folder, or --resume"):
        await measure(load_plan(), out, engines)
    assert await measure(load_plan(), out, engines, resume=True) == first
    assert engines.launches == ["bf16", "fp8"]

    more = await measure(load_plan({"concurrency": [1, 3, 4]}), out, engines, resume=True)
    assert engines.launches == ["bf16", "fp8"] * 2
    for name, variant in more.variants.items():
        kept = len(first.variants[name].levels)
        assert variant.levels[:kept] == first.variants[name].levels
        assert [result.level.concurrency for result in variant.levels[kept:]] == [4, 4, 4]


async def test_resume_with_another_engine_is_refused(load_plan: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(always(words()))
    await measure(load_plan(), tmp_path / "run", engines)
    other = load_plan(engine={"args": {"max-num-seqs": 2}})
    with pytest.raises(
        ResumeError, match=r"engine_args of bf16 was \{\} in load.json and is \{'max-num-seqs': 2\} now"
    ):
        await measure(other, tmp_path / "run", engines, resume=True)


async def test_a_dying_server_costs_its_own_variant_only(load_plan: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(always(words()))
    asked = 0

    def dies(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal asked
        asked += 1
        return words(die=asked == 12)

    engines.handlers["bf16"] = dies
    document = await measure(load_plan(), tmp_path / "run", engines)
    assert document.variants["bf16"].status == "stopped"
    assert "the engine stopped" in str(document.variants["bf16"].reason)
    # A level that lost its server is not a measurement of it.
    assert len(document.variants["bf16"].levels) == 1
    assert document.variants["fp8"].status == "complete"
    assert not document.is_complete

    engines.servers["bf16"].handler = always(words())
    resumed = await measure(load_plan(), tmp_path / "run", engines, resume=True)
    assert resumed.is_complete
    assert resumed.variants["bf16"].levels[0] == document.variants["bf16"].levels[0]
    assert engines.launches == ["bf16", "fp8", "bf16"]


async def test_a_level_whose_server_died_is_none_though_its_process_is_there_still(
    load_plan: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kveval.load.stage._DYING_SECONDS", 0.2)
    monkeypatch.setattr("support.scripted.ScriptedEngine.exit_message", lambda _: None)
    engines = ScriptedEngines(always(words()))
    engines.handlers["bf16"] = lambda _prompt, body: words(die=body["max_tokens"] == OUTPUT_TOKENS)
    document = await measure(load_plan(), tmp_path / "run", engines)
    assert document.variants["bf16"].status == "stopped"
    assert "the server no longer answers" in str(document.variants["bf16"].reason)
    assert document.variants["bf16"].levels == []


async def test_what_is_not_what_was_asked_is_refused(load_plan: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(always(words()))
    engines.options["fp8"] = {"cache_dtype": "bfloat16"}
    engines.fail_to_start["bf16"] = (1, "bf16: out of luck")
    document = await measure(load_plan(), tmp_path / "run", engines)
    assert document.variants["bf16"].status == "failed"
    assert document.variants["fp8"].status == "refused"
    assert "fp8 was asked for, the server stores bfloat16" in str(document.variants["fp8"].reason)
    first_token, *others = engines.servers["fp8"].requests
    assert not is_smoke(first_token)
    assert all(is_smoke(body) for body in others)


async def test_a_run_directory_of_another_model_is_refused(
    load_plan: Planner, plan_of: Callable[..., Plan], checkpoint: Path, tmp_path: Path
) -> None:
    plan = plan_of(variants=["bf16"], cold_check=0)
    engines = ScriptedEngines(Oracle(plan))
    await sweep(plan, tmp_path / "run", resume=False, reporter=SilentReporter(), open_engine=engines)
    (checkpoint / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(RunDirectoryError, match=r"of a model with another model/model.safetensors"):
        await measure(load_plan(), tmp_path / "run", engines)


async def test_a_sweep_loads_its_servers(plan_of: Callable[..., Plan], tmp_path: Path) -> None:
    out = tmp_path / "run"
    plan = plan_of(variants=["bf16", {"name": "fp8", "control": "emulated"}], load=SMALL, cold_check=0, aa_share=0.5)
    oracle = Oracle(plan)

    def handler(prompt: list[int], body: dict[str, Any]) -> Reply:
        return words() if body.get("ignore_eos") else oracle(prompt, body)

    engines = ScriptedEngines(handler)
    assert plan.config.load is not None
    stage = LoadStage(load_plan_of(plan, plan.config.load), out, resume=False, on_status=lambda *_: None)
    await sweep(plan, out, resume=False, reporter=SilentReporter(), stages=[stage], open_engine=engines)
    document = stage.finish()

    assert engines.launches == ["bf16", "bf16-aa", "fp8", "fp8-control"]
    assert set(document.variants) == {"bf16", "fp8"}
    assert document.is_complete
    assert len(list(RunDirectory(out).records("fp8"))) == len(plan.samples)

    # Load alone is missing: its servers are launched, no sample is asked again.
    records = {name: RunDirectory(out).records_path(name).read_bytes() for name in ("bf16", "fp8")}
    (out / "load.json").unlink()
    stage = LoadStage(load_plan_of(plan, plan.config.load), out, resume=True, on_status=lambda *_: None)
    engines.fail_to_start["fp8"] = (2, "fp8: no")
    manifest = await sweep(plan, out, resume=True, reporter=SilentReporter(), stages=[stage], open_engine=engines)
    document = stage.finish()
    assert engines.launches[4:] == ["bf16", "fp8"]
    assert document.variants["bf16"].status == "complete"
    assert document.variants["fp8"].levels == []
    assert manifest.variants["fp8"].status == "complete"
    assert {name: RunDirectory(out).records_path(name).read_bytes() for name in records} == records


def test_what_the_plan_refuses(load_plan: Planner) -> None:
    with pytest.raises(
        PlanError, match=r"load.prompt_lengths: 8192 prompt tokens and 5 output tokens do not fit .*8192 tokens.; use"
    ):
        load_plan({"prompt_lengths": ["8k"]})
    with pytest.raises(ConfigError, match="load: concurrency, request_rates: both empty"):
        load_plan({"concurrency": []})
    with pytest.raises(ConfigError, match="load: concurrency: 2 is listed twice"):
        load_plan({"concurrency": [2, 2]})
    with pytest.raises(ConfigError, match=r"unknown key 'load.concurency'; did you mean 'concurrency'"):
        load_plan({"concurency": [2]})


def test_the_longest_context_is_what_the_server_takes(load_plan: Planner) -> None:
    assert load_plan().levels[-1].prompt_lengths == [512]
    assert load_plan(engine={"args": {"max-model-len": 4096}}).levels[-1].prompt_lengths == [4096 - 5 - 8]
    assert load_plan({"longest_context": False}).levels[-1].kind == "closed"
    assert len(load_plan({"mixed": False}).levels) == 5


def test_the_baseline_may_be_measured_twice(load_plan: Planner) -> None:
    assert [variant.name for variant in load_plan().variants] == ["bf16", "fp8"]
    assert [variant.name for variant in load_plan({"aa": True}).variants] == ["bf16", "bf16-aa", "fp8"]


def test_gauges_are_read_from_metrics() -> None:
    text = (
        "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_running{engine="1"} 1.0\n'
        'vllm:num_requests_waiting{engine="0"} 2.0\nvllm:num_requests_waiting_by_reason{reason="x"} 7.0\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
    )
    assert gauges(text) == {"running": 4.0, "waiting": 2.0, "kv_usage": 0.25}
    assert gauges("<html>") == {}


def test_gpu_memory_is_that_of_the_engines_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = psutil.Process()
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{own.pid}, 1000\\n{own.pid}, 24\\n1, 5000\\n{own.pid}, [N/A]\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert device_bytes([own]) == 1024 << 20
    assert device_bytes([]) is None
    program.write_text("#!/bin/sh\nexit 9\n")
    assert device_bytes([own]) is None


def test_a_broken_load_file_is_named(tmp_path: Path) -> None:
    assert read_load(tmp_path) is None
    (tmp_path / "load.json").write_text("{")
    with pytest.raises(RunDirectoryError, match=r"load.json: document: Invalid JSON"):
        read_load(tmp_path)
    (tmp_path / "load.json").write_text(json.dumps({"schema_version": 1}))
    with pytest.raises(RunDirectoryError, match=r"load.json: kveval_version: Field required"):
        read_load(tmp_path)


def test_defaults_are_valid() -> None:
    assert LoadConfig().longest_tokens == 4096 + 64
