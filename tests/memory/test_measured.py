"""The theory beside servers that ran, and beside vLLM's own allocator."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import DATA, ROOT

from kveval.config.sweep import EngineConfig, VariantConfig
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_installation
from kveval.memory.architecture import read_architecture
from kveval.memory.budget import GIB
from kveval.memory.estimate import capacity_tokens
from kveval.memory.formats import parse_format
from kveval.memory.measured import theory_beside_measured
from kveval.memory.pool import make_pool
from kveval.models.demo import DEMO_MODELS
from kveval.run.facts import Facts

MEASURED = yaml.safe_load((DATA / "memory_measured.yaml").read_text())
needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment")


def config(name: str) -> dict[str, Any]:
    return json.loads((DATA / "configs" / f"{name}.json").read_text())


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
    compared = theory_beside_measured(config(server["config"]), server["config"], told, server["cache_gib"] * GIB)
    assert compared["reason"] is None
    assert compared["measured_tokens"] == server["tokens"]
    assert abs(compared["difference_percent"]) < 0.01


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
    compared = theory_beside_measured(config("smollm2-135m"), "smollm2", facts(**changes), cache_bytes)
    assert compared["theory_tokens"] is None
    assert compared["difference_percent"] is None
    assert compared["reason"].startswith(reason)


def test_nothing_measured_has_a_reason_and_a_theory() -> None:
    compared = theory_beside_measured(config("smollm2-135m"), "smollm2", facts(kv_capacity_tokens=None), 2 * GIB)
    assert compared == {
        "theory_tokens": 186368, "measured_tokens": None, "difference_percent": None,
        "reason": "the server did not report its capacity",
    }  # fmt: skip


def test_auto_is_the_models_own_dtype() -> None:
    told = facts(effective_cache_dtype="auto", kv_capacity_tokens=93184)
    assert theory_beside_measured(config("smollm2-135m"), "smollm2", told, 2 * GIB)["difference_percent"] == 0


@pytest.mark.vllm
@needs_vllm
@pytest.mark.timeout(300)
def test_vllms_allocator_makes_the_same_pool() -> None:
    """Blocks and capacity of every published configuration, by vLLM's own code, in a process of its own."""
    lengths, formats, in_flight, cache = (
        [512, 4096, 30000],
        ["bf16", "fp8", "int8", "int4_per_token_head"],
        4096,
        40 * GIB,
    )
    names = sorted(path.stem for path in (DATA / "configs").glob("*.json"))
    cases = [
        {"config": config(name), "format": parse_format(stored).name, "length": length, "name": name}
        for name in names
        for stored in formats
        for length in lengths
    ]
    script = ROOT / "tests" / "support" / "vllm_allocator.py"
    given = json.dumps({"cases": cases, "in_flight_tokens": in_flight, "cache_bytes": cache, "block_size": 16})
    ran = subprocess.run([sys.executable, str(script)], input=given, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    answers = json.loads(ran.stdout.splitlines()[-1])
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        pool = make_pool(read_architecture(case["config"], case["name"]), parse_format(case["format"]), 16)
        ours = [pool.blocks_in(cache), capacity_tokens(pool, cache, case["length"], in_flight)]
        assert ours == answer, (case["name"], case["format"], case["length"])


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
        variant, config=EngineConfig(kv_cache_gib=1), installation=find_installation(EngineConfig()), model=folder,
        max_model_len=5000, logprobs=1, log_path=tmp_path / "engine.log",
    )  # fmt: skip
    await engine.start(lambda _: None)
    try:
        told = await engine.facts()
    finally:
        await engine.stop()
    compared = theory_beside_measured(json.loads((folder / "config.json").read_text()), model, told, GIB)
    assert compared["reason"] is None
    assert abs(compared["difference_percent"]) <= 2
