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
from support.processor import needs_avx512

from kveval.config.engine import EngineConfig
from kveval.config.variant import VariantConfig
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_vllm
from kveval.memory.budget import GIB
from kveval.memory.measured import CapacityComparison, compare_capacity, expected_ratio, gains_too_little
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


def on_gpu(dtype: str, window: int, **changes: Any) -> Facts:
    return facts(
        effective_cache_dtype=dtype, max_model_len=window, device="cuda", block_size=None, max_num_batched_tokens=8192,
        **changes,
    )  # fmt: skip


def expected(name: str, window: int = 8192, dtype: str = "fp8", **changes: Any) -> float:
    found = expected_ratio(published_config(name), name, on_gpu(dtype, window, **changes), on_gpu("bfloat16", window))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "window", "least", "most"),
    [
        ("llama-3.1-8b", 8192, 2.0, 2.0),
        # State is not quantized: the shorter the window, the more it counts.
        ("qwen3-next-80b-a3b", 2048, 1.1, 1.4),
        ("qwen3-next-80b-a3b", 8192, 1.3, 1.8),
        ("qwen3-next-80b-a3b", 262144, 1.9, 2.0),
        ("gemma-3-27b", 32768, 1.9, 2.1),
    ],
)
def test_what_fp8_should_hold(name: str, window: int, least: float, most: float) -> None:
    assert least <= round(expected(name, window), 3) <= most


def test_skipped_layers_take_what_they_took_before() -> None:
    # Two of 32 layers: 32 / (30 / 2 + 2).
    assert expected("llama-3.1-8b", skip_layers="['0', '31']") == pytest.approx(32 / 17, rel=0.03)
    assert expected("llama-3.1-8b", skip_layers="[]") == 2
    assert expected("gemma-3-27b", 32768, skip_layers="['sliding_window']") < expected("gemma-3-27b", 32768)


def test_less_memory_holds_less() -> None:
    ours, theirs = on_gpu("fp8", 8192, kv_cache_gib=30.0), on_gpu("bfloat16", 8192, kv_cache_gib=40.0)
    assert expected_ratio(published_config("llama-3.1-8b"), "m", ours, theirs) == pytest.approx(1.5)


@pytest.mark.parametrize(("dtype", "name"), [("turboquant_4bit_nc", "llama-3.1-8b"), ("fp8_ds_mla", "llama-3.1-8b")])
def test_what_cannot_be_sized_has_no_expectation(dtype: str, name: str) -> None:
    assert expected_ratio(published_config(name), name, on_gpu(dtype, 8192), on_gpu("bfloat16", 8192)) is None


@pytest.mark.parametrize(
    ("ratio", "expected", "too_little"),
    [(1.29, 2.0, True), (1.3, 2.0, False), (1.14, 1.14, False), (1.04, 1.14, True), (1.0, 1.38, True),
     (1.0, 1.02, False), (1.8, 4.0, True), (0.9, 1.0, False)],
)  # fmt: skip
def test_a_cache_that_gained_too_little(ratio: float, expected: float, too_little: bool) -> None:
    assert gains_too_little(ratio, expected) == too_little


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
        pytest.param("smollm2", "fp8", marks=needs_avx512),
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
