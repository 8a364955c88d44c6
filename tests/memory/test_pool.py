from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest
from support import DATA, ROOT
from support.model_configs import DENSE, published, published_config

from kveval.errors import UsageError
from kveval.memory.architecture import read_architecture
from kveval.memory.budget import GIB
from kveval.memory.estimate import capacity_tokens, estimate
from kveval.memory.formats import parse_format, stored_formats
from kveval.memory.pool import EngineSettings, default_batched_tokens, make_pool


def test_defaults_are_those_of_vllm() -> None:
    assert default_batched_tokens("cpu", None) == 2048
    assert [default_batched_tokens("gpu", gib * GIB) for gib in (24, 80, 192)] == [2048, 8192, 16384]
    assert EngineSettings().in_flight_tokens(None) == 2 * 8192
    assert EngineSettings("cpu").in_flight_tokens(None) == 2048
    assert EngineSettings("cpu", batched_tokens=512).in_flight_tokens(None) == 512
    architecture = read_architecture(DENSE, "config.json")
    assert EngineSettings().block_tokens_of(architecture) == 16
    assert EngineSettings("cpu").block_tokens_of(architecture) == 128
    assert EngineSettings("cpu", 32).block_tokens_of(architecture) == 32


@pytest.mark.parametrize(
    ("settings", "word"), [({"device": "tpu"}, "--device"), ({"block_tokens": 0}, "--block-size"),
                          ({"batched_tokens": -1}, "--batched-tokens"), ({"tensor_parallel": 0}, "--tensor-parallel")],
)  # fmt: skip
def test_invalid_settings_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=f"{word}: .*; use"):
        EngineSettings(**settings)


# Their classes are not in transformers, or their layers take more than the script knows.
NOT_BUILT_BY_THE_SCRIPT = {"deepseek-ocr", "deepseek-v3.2", "kimi-k2", "nemotron-3-nano"}
needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment")


def test_layers_with_other_heads_share_pages_by_their_tokens() -> None:
    config = {
        "model_type": "gemma4_text", "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
        "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2, "sliding_window": 64,
        "attention_k_eq_v": True,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }  # fmt: skip
    row = estimate(config, "config.json", window=None, formats=["bf16"], lengths=[4096]).formats[0]
    # A sliding token takes 8 x 2 x 256 x 2 = 8192 bytes, a full one half of it: 32 tokens fill the other's page of 16.
    assert row.block_bytes == 2 * 16 * 8192
    assert row.lengths[0].sequence_bytes == (4096 // 32 + 64 // 16 + 1) * 2 * 16 * 8192


def test_ranks_share_a_state() -> None:
    pool = make_pool(published("qwen3-next-80b-a3b", 2), parse_format("bf16"), EngineSettings())
    # Half the state and half the bytes of a token: the block stays what it was.
    assert pool.block_tokens == 544


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
    names = sorted({path.stem for path in (DATA / "configs").glob("*.json")} - NOT_BUILT_BY_THE_SCRIPT)
    cases = [
        {"config": published_config(name), "format": parse_format(stored).name, "length": length, "name": name}
        for name in names
        for stored in formats
        if stored_formats(parse_format(stored), published(name), "gpu")
        for length in lengths
    ]
    script = ROOT / "tests" / "support" / "vllm_allocator.py"
    given = json.dumps({"cases": cases, "in_flight_tokens": in_flight, "cache_bytes": cache, "block_size": 16})
    ran = subprocess.run([sys.executable, str(script)], input=given, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    answers = json.loads(ran.stdout.splitlines()[-1])
    assert len(answers) == len(cases)
    for case, answer in zip(cases, answers, strict=True):
        pool = make_pool(
            read_architecture(case["config"], case["name"]), parse_format(case["format"]), EngineSettings()
        )
        ours = [pool.blocks_in(cache), capacity_tokens(pool, cache, case["length"], in_flight)]
        assert ours == answer, (case["name"], case["format"], case["length"])
