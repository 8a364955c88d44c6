"""The theory beside servers that ran, and beside vLLM's own allocator."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import DATA
from support.model_configs import published_config

from kveval.config.engine import EngineConfig
from kveval.config.variant import VariantConfig
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_vllm
from kveval.memory.budget import GIB
from kveval.memory.measured import CapacityComparison, compare_capacity
from kveval.models.demo import DEMO_MODELS
from kveval.run.facts import Facts

MEASURED = yaml.safe_load((DATA / "memory_measured.yaml").read_text())
needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment")


def facts(**changes: Any) -> Facts:
    told = {
        "kv_capacity_tokens": 186368, "effective_cache_dtype": "fp8", "block_size": 128, "max_model_len": 8192,
        "max_num_batched_tokens": 2048, "device": "cpu", "model_dtype": "bfloat16",
    }  # fmt: skip
    return Facts.model_validate(told | changes)


@pytest.mark.parametrize("server", MEASURED, ids=lambda s: f"{s['config']}-{s['dtype']}-{s['max_model_len']}")
def test_theory_meets_the_servers_own_capacity(server: dict[str, Any]) -> None:
    told = facts(
        kv_capacity_tokens=server["tokens"], effective_cache_dtype=server["dtype"], block_size=server["block_size"],
        max_model_len=server["max_model_len"], max_num_batched_tokens=None,
    )  # fmt: skip
    compared = compare_capacity(published_config(server["config"]), server["config"], told, server["cache_gib"] * GIB)
    assert compared.reason is None
    assert compared.measured_tokens == server["tokens"]
    assert abs(compared.difference_percent) < 0.01


@pytest.mark.parametrize(
    ("changes", "cache_bytes", "reason"),
    [
        ({"effective_cache_dtype": None}, GIB, "not known of this server: effective_cache_dtype"),
        ({"max_model_len": None}, GIB, "not known of this server: max_model_len"),
        ({}, None, "not known of this server: the memory of its cache"),
        (
            {"effective_cache_dtype": "turboquant_4bit_nc"},
            GIB,
            "cache dtype: 'turboquant_4bit_nc' cannot be sized",
        ),
        ({"effective_cache_dtype": "fp8_ds_mla"}, GIB, "fp8_ds_mla: is made for latent"),
    ],
)
def test_no_theory_has_a_reason(changes: dict[str, Any], cache_bytes: int | None, reason: str) -> None:
    compared = compare_capacity(published_config("smollm2-135m"), "smollm2", facts(**changes), cache_bytes)
    assert compared.theory_tokens is None
    assert compared.difference_percent is None
    assert compared.reason.startswith(reason)


def test_nothing_measured_has_a_reason_and_a_theory() -> None:
    compared = compare_capacity(published_config("smollm2-135m"), "smollm2", facts(kv_capacity_tokens=None), 2 * GIB)
    assert compared == CapacityComparison(
        theory_tokens=186368, measured_tokens=None, difference_percent=None,
        reason="the server did not report its capacity",
    )  # fmt: skip


def test_auto_is_the_models_own_dtype() -> None:
    told = facts(effective_cache_dtype="auto", kv_capacity_tokens=93184)
    assert compare_capacity(published_config("smollm2-135m"), "smollm2", told, 2 * GIB).difference_percent == 0


@pytest.mark.vllm
@needs_vllm
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        ("smollm2", "fp8"),
        pytest.param(
            "gemma3-270m", "bfloat16",
            marks=pytest.mark.skipif(
                not DEMO_MODELS["gemma3-270m"].is_present, reason="`kveval data fetch gemma3-270m` was not run"
            ),
        ),
    ],
)  # fmt: skip
async def test_a_server_reports_what_theory_says(
    one_engine: None, smollm2: Path, model: str, dtype: str, tmp_path: Path
) -> None:
    folder = smollm2 if model == "smollm2" else DEMO_MODELS[model].checkpoint
    variant = ResolvedVariant("v", VariantConfig(name="v", kv_cache_dtype=dtype), dtype, None, "candidate")
    engine = VLLMEngine(
        variant, config=EngineConfig(kv_cache_gib=1), installation=find_vllm(EngineConfig()), model=folder,
        max_model_len=5000, logprobs=1, log_path=tmp_path / "engine.log",
    )  # fmt: skip
    await engine.start(lambda _: None)
    try:
        told = await engine.facts()
    finally:
        await engine.stop()
    compared = compare_capacity(json.loads((folder / "config.json").read_text()), model, told, GIB)
    assert compared.reason is None
    assert abs(compared.difference_percent) <= 2
