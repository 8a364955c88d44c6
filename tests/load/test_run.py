"""Load against scripted servers: what is counted, what is left out, what resuming keeps."""

from __future__ import annotations

from pathlib import Path

from support.loads import Planner, is_smoke, measure, words
from support.scripted import Reply, ScriptedEngines, always

from kveval.load.plan import describe_load
from kveval.run.load_results import read_load


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
