"""Flags, routes and request fields that kveval gives to vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.variants import CPU
from support.vllm_source import VLLMSource

from kveval.config.engine import EngineConfig
from kveval.config.variant import VariantConfig
from kveval.engines.base import Installation
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.batch_invariance import VARIABLE
from kveval.engines.vllm.engine import VLLMEngine

# Of the API server's own class of flags; the others belong to the engine.
OF_THE_SERVER = {"host", "disable-uvicorn-access-log", "enable-prompt-tokens-details"}


def given(tmp_path: Path) -> set[str]:
    variant = ResolvedVariant(
        "bf16", VariantConfig(name="bf16", kv_cache_dtype="bfloat16"), "bfloat16", None, "baseline"
    )
    engine = VLLMEngine(
        variant, config=EngineConfig(), installation=Installation(("vllm",), CPU), model=tmp_path, max_model_len=512,
        logprobs=5, log_path=tmp_path / "log", is_eager=True, forces=True,
    )  # fmt: skip
    return set(engine._arguments)


def test_every_flag_is_one(vllm: VLLMSource, tmp_path: Path) -> None:
    engine = vllm.members("engine/arg_utils.py", "EngineArgs") | vllm.members("engine/arg_utils.py", "AsyncEngineArgs")
    for flag in given(tmp_path) | {"attention-backend", "kv-cache-dtype-skip-layers", "max-num-seqs"}:
        name = flag.replace("-", "_")
        if flag in OF_THE_SERVER:
            assert vllm.annotates("entrypoints", name), flag
        else:
            assert name in engine, flag


@pytest.mark.parametrize(
    "name", ["VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU", "VLLM_NO_USAGE_STATS", VARIABLE]
)
def test_every_variable_is_one(vllm: VLLMSource, name: str) -> None:
    vllm.says("envs.py", f"^{name}$")


@pytest.mark.parametrize("route", ["/v1/models", "/version", "/health", "/tokenize"])
def test_every_route_is_there(vllm: VLLMSource, route: str) -> None:
    files = (vllm.root / "entrypoints").rglob("*.py")
    assert any(f'"{route}"' in file.read_text(encoding="utf-8") for file in files)


def test_every_field_of_a_request_is_taken(vllm: VLLMSource) -> None:
    asked = {
        "model", "prompt", "max_tokens", "temperature", "seed", "stream", "stream_options", "logprobs", "stop",
        "ignore_eos", "return_tokens_as_token_ids", "vllm_xargs", "cache_salt", "prompt_logprobs", "add_special_tokens",
    }  # fmt: skip
    assert asked <= vllm.members("entrypoints/openai/completion/protocol.py", "CompletionRequest")
    chat = {"messages", "tools", "tool_choice", "chat_template_kwargs", "cache_salt", "vllm_xargs"}
    assert chat <= vllm.members("entrypoints/openai/chat_completion/protocol.py", "ChatCompletionRequest")
