"""Load on servers that already run: how they have to be asked, and when one is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripted import Reply
from support.scripted_endpoint import BARE, ScriptedEndpoint, two_servers

from kveval.config.sweep import validate_config
from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.load.plan import LoadPlan, make_load_plan
from kveval.load.run import run_load
from kveval.run.load_results import LoadDocument
from kveval.tasks.assembly.prompt import PromptFormat

TOKENS = tuple(range(100, 400))
LOAD = {
    "concurrency": [2], "prompt_lengths": [64], "output_tokens": 5, "requests": 5, "warmup_requests": 1,
    "longest_context": False, "sample_interval_s": 0.05,
}  # fmt: skip
Servers = dict[str, ScriptedEndpoint]
Planner = Callable[..., LoadPlan]


def words(*_: Any) -> Reply:
    return Reply("a quiet harbour town today", finish_reason="length")


@pytest.fixture(autouse=True)
def _stand_ins(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kveval.load.stage.ordinary_tokens", lambda *_: TOKENS)
    monkeypatch.setattr("kveval.engines.openai.requests._DEFAULT_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with two_servers(words) as both:
        yield both


@pytest.fixture
def plan_for(servers: Servers, checkpoint: Path) -> Planner:
    def plan(**load: Any) -> LoadPlan:
        variants = [
            {"name": name, "kv_cache_dtype": dtype, "endpoint": {"url": servers[name].base_url, "model": "served"}}
            for name, dtype in (("f16", "float16"), ("q8", "q8_0"))
        ]
        config = {
            "model": str(checkpoint), "variants": variants, "baseline": "f16", "context_lengths": [64],
            "tasks": ["niah_single"], "load": LOAD | load, "requests": {"timeout_s": 5.0},
        }  # fmt: skip
        return make_load_plan(validate_config(config), NOTHING_TO_LAUNCH)

    return plan


async def measure(plan: LoadPlan, out: Path) -> LoadDocument:
    return await run_load(plan, out, resume=False, on_status=lambda _: None)


def loaded(server: ScriptedEndpoint, output_tokens: int = 5) -> list[dict[str, Any]]:
    """Requests of the load alone, warm-up included: probes ask for other outputs, or about other prompts."""
    return [body for body in server.requests if body["max_tokens"] == output_tokens and len(body["prompt"]) == 64]


async def test_both_servers_get_the_same_prompts(plan_for: Planner, servers: Servers, tmp_path: Path) -> None:
    document = await measure(plan_for(), tmp_path)
    assert document.is_complete
    for variant in document.variants.values():
        [result] = variant.levels
        assert result.outcomes == {"completed": 5}
        assert result.prompt_tokens == 5 * 64
        assert result.ttft_ms.n == 5
        assert result.engine_rss_bytes is None
        assert variant.cold_start_s is None
    first, second = (loaded(servers[name]) for name in ("f16", "q8"))
    assert len(first) == 6
    assert sorted(body["prompt"] for body in first) == sorted(body["prompt"] for body in second)
    assert all(body["ignore_eos"] for body in first)


async def test_the_noise_floor_of_one_server_is_asked_under_another_salt(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    document = await measure(plan_for(aa=True), tmp_path)
    assert set(document.variants) == {"f16", "f16-aa", "q8"}
    counted = [body["cache_salt"] for body in loaded(servers["f16"]) if not body["cache_salt"].endswith("-warmup")]
    assert {counted.count(salt) for salt in counted} == {5}
    assert len(set(counted)) == 2


async def test_a_bare_server_gets_texts_of_their_length_that_begin_anew(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    stand_in = PromptFormat.stand_in()
    for server in servers.values():
        server.lacks = set(BARE)
        server.tokenize = lambda text: [int(token) for token in stand_in.encode(text)]
    document = await measure(plan_for(aa=True, output_tokens=3), tmp_path)
    for variant in document.variants.values():
        [result] = variant.levels
        assert result.outcomes == {"completed": 5}
        assert result.prompt_tokens == 5 * 64
        # Without a stream there is no first token, and the whole answer's time is known all the same.
        assert result.ttft_ms.n == 0
        assert result.latency_ms.n == 5
        assert result.running is None
    beginnings = [tuple(body["prompt"][:8]) for body in loaded(servers["f16"], output_tokens=3)]
    assert len(set(beginnings)) == len(beginnings) == 12


async def test_a_request_that_had_to_wait_is_counted_and_not_timed(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan, waited = plan_for(concurrency=[1]), iter([{"retry-after": "1"}])

    def first_waits(prompt: list[int], body: dict[str, Any]) -> Reply:
        if body["max_tokens"] == 5 and len(prompt) >= 60 and (headers := next(waited, None)):
            servers["q8"].rate_limits.append(headers)
        return words()

    servers["q8"].handler = first_waits
    result = (await measure(plan, tmp_path)).variants["q8"].levels[0]
    assert result.outcomes == {"completed": 4, "rate_limited": 1}
    assert result.latency_ms.n == 4
    assert [finding.code for finding in result.findings] == ["load_failures"]


async def test_a_server_that_goes_away_or_changes_its_model_is_left(
    plan_for: Planner, servers: Servers, tmp_path: Path
) -> None:
    plan, asked = plan_for(concurrency=[1, 2]), 0

    def changing(prompt: list[int], body: dict[str, Any]) -> Reply:
        nonlocal asked
        asked += body["max_tokens"] == 5 and len(prompt) >= 60
        if asked == 8:
            servers["q8"].models = [{"id": "another"}]
        return words()

    servers["q8"].handler = changing
    document = await measure(plan, tmp_path)
    assert document.variants["f16"].status == "complete"
    stopped = document.variants["q8"]
    assert stopped.status == "stopped"
    assert "the server's model changed" in (stopped.reason or "")
    assert len(stopped.levels) == 1
