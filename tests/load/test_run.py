"""Load against scripted servers: what is counted, what is left out, what resuming keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.loads import OUTPUT_TOKENS, TOKENS, is_smoke, words
from support.scripted import Oracle, Reply, ScriptedEngines, always

from kveval.config.load import LoadConfig
from kveval.config.sweep import validate_config
from kveval.engines.base import Installation
from kveval.errors import ConfigError, PlanError, ResumeError, RunDirectoryError
from kveval.load.plan import LoadPlan, describe_load, load_plan_of, make_load_plan
from kveval.load.run import run_load
from kveval.load.stage import LoadStage
from kveval.measure.plan.plan import Plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadDocument, read_load

SMALL = {
    "concurrency": [1, 3], "prompt_lengths": [32, 64], "output_tokens": OUTPUT_TOKENS, "requests": 6,
    "warmup_requests": 1, "sample_interval_s": 0.05,
}  # fmt: skip
Planner = Callable[..., LoadPlan]


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


async def measure(plan: LoadPlan, out: Path, engines: ScriptedEngines, *, resume: bool = False) -> LoadDocument:
    return await run_load(plan, out, resume=resume, on_status=lambda _: None, open_engine=engines)  # type: ignore[arg-type]


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


async def test_a_server_that_fails_the_smoke_questions_is_refused(load_plan: Planner, tmp_path: Path) -> None:
    engines = ScriptedEngines(always(words()))
    engines.handlers["fp8"] = lambda _prompt, body: Reply("") if is_smoke(body) else words()
    document = await measure(load_plan(), tmp_path / "run", engines)
    assert document.variants["bf16"].smoke.output == "word word word word word"
    assert document.variants["fp8"].status == "refused"
    assert "the answer is empty" in str(document.variants["fp8"].reason)
    assert document.variants["fp8"].levels == []
    accepted = await measure(load_plan(accept_findings=["smoke_failed"]), tmp_path / "run", engines, resume=True)
    assert accepted.is_complete


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


def test_defaults_are_valid() -> None:
    assert LoadConfig().longest_tokens == 4096 + 64
