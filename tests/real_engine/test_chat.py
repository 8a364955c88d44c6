"""Conversations and tool calls on a real vLLM server: its chat endpoint sees the prompts that were planned."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.processor import needs_avx512

from kveval.config.engine import EngineConfig, RequestsConfig
from kveval.config.sweep import validate_config
from kveval.config.variant import VariantConfig
from kveval.engines.client.client import Client
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_vllm
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.records import record_of, request_of
from kveval.resources import tasks_directory

pytestmark = [
    pytest.mark.vllm,
    needs_avx512,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]

TASKS = ["fact_update", "tools_catalogue", "tools_conversation"]
TOOL_FLAGS = {
    "chat-template": str(tasks_directory() / "tool_calls" / "chatml_tools.jinja"),
    "enable-auto-tool-choice": True,
    "tool-call-parser": "hermes",
}


def settings(model: Path, **engine_args: Any) -> dict[str, Any]:
    return {
        "model": str(model),
        "variants": ["bf16"],
        "context_lengths": [1536],
        "tasks": TASKS,
        "samples": 4,
        "haystack": "generated",
        "aa_share": 0.0,
        "engine": {"kv_cache_gib": 1, "args": engine_args},
    }


@pytest.fixture(scope="module")
def plan(smollm2: Path) -> Plan:
    return make_plan(validate_config(settings(smollm2, **TOOL_FLAGS)), find_vllm(EngineConfig()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(
    one_engine: None, plan: Plan, smollm2: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    engine = VLLMEngine(
        ResolvedVariant(
            "bf16", VariantConfig(name="bf16", kv_cache_dtype="bfloat16"), "bfloat16", None, "baseline"
        ),
        config=plan.config.engine,
        installation=plan.installation,
        model=smollm2,
        max_model_len=plan.max_model_len,
        logprobs=20,
        log_path=tmp_path_factory.mktemp("engine") / "engine.log",
    )  # fmt: skip
    await engine.start(lambda _: None)
    try:
        async with Client(engine.base_url, engine.model_name, RequestsConfig(), engine.exit_message) as client:
            yield client
    finally:
        await engine.stop()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_server_makes_the_prompt_tokens_that_were_planned(client: Client, plan: Plan) -> None:
    assert {task: route.form for task, route in plan.routes.items()} == {
        "fact_update": "messages", "tools_catalogue": "tools", "tools_conversation": "tools",
    }  # fmt: skip
    for sample in plan.samples:
        assert 1528 <= len(sample.prompt) <= 1536
        answer = await client.ask(request_of(dataclasses.replace(sample, max_output_tokens=24)))
        assert answer.error_kind is None
        assert answer.prompt_token_ids == sample.prompt.token_ids().tolist()
        assert answer.prompt_tokens == len(sample.prompt)
        record = record_of(sample, plan.tasks[sample.task], "bf16", answer)
        assert record.outcome != "engine_error"
        assert len(answer.output_token_ids) == len(answer.top_ids) == sum(answer.chunk_tokens) > 0


@pytest.mark.asyncio(loop_scope="module")
async def test_a_forced_call_comes_back_as_calls_and_without_the_grammars_logprobs(client: Client, plan: Plan) -> None:
    for sample in [sample for sample in plan.samples if sample.family == "tool_calls"][::3]:
        assert sample.chat is not None
        forced = dataclasses.replace(
            sample, chat=dataclasses.replace(sample.chat, tool_choice="required"), max_output_tokens=128
        )
        answer = await client.ask(request_of(forced))
        assert answer.error_kind is None
        calls = json.loads(answer.text)
        offered = {tool["function"]["name"] for tool in sample.chat.tools}
        assert all(call.keys() == {"name", "arguments"} and call["name"] in offered for call in calls)
        assert answer.top_ids == []
        assert len(answer.output_token_ids) == sum(answer.chunk_tokens) > 0
        record = record_of(forced, plan.tasks[sample.task], "bf16", answer)
        assert record.logprobs is None
        assert record.error is None
