"""Attaching to a real vLLM server that somebody else started, with a key."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.processor import needs_avx512

from kveval.config.engine import EngineConfig
from kveval.config.sweep import validate_config
from kveval.config.variant import VariantConfig
from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.engines.variants import resolve
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_vllm
from kveval.load.plan import make_load_plan
from kveval.load.run import run_load
from kveval.measure.plan.plan import make_plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory

pytestmark = [pytest.mark.vllm, needs_avx512, pytest.mark.usefixtures("one_engine"), pytest.mark.timeout(900)]

KEY = "sk-vllm-endpoint-test"
LOAD = {
    "concurrency": [2], "prompt_lengths": [128], "output_tokens": 8, "requests": 4, "warmup_requests": 1,
    "longest_context": False, "aa": True,
}  # fmt: skip


async def test_a_vllm_server_reveals_its_facts_and_outlives_the_sweep(
    smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_TEST_KEY", KEY)
    engine_config = EngineConfig(kv_cache_gib=1)
    installation = find_vllm(engine_config)
    theirs = VariantConfig(name="theirs", kv_cache_dtype="bfloat16", engine_args={"api-key": KEY})
    server = VLLMEngine(
        resolve(theirs, installation.device, "baseline"),
        config=engine_config,
        installation=installation,
        model=smollm2,
        max_model_len=1280,
        logprobs=20,
        log_path=tmp_path / "theirs.log",
    )
    await server.start(lambda _: None)
    try:
        endpoint = {"url": server.base_url, "model": server.model_name, "api_key_env": "VLLM_TEST_KEY"}
        config = validate_config(
            {
                "model": str(smollm2),
                "variants": [{"name": "bf16", "endpoint": endpoint}],
                "context_lengths": [1024],
                "tasks": ["niah_single"],
                "samples": 6,
                "questions_per_haystack": 3,
                "haystack": "generated",
                "load": LOAD,
            }
        )
        manifest = await sweep(
            make_plan(config, NOTHING_TO_LAUNCH), tmp_path / "run", resume=False, reporter=SilentReporter()
        )
        load = await run_load(
            make_load_plan(config, NOTHING_TO_LAUNCH), tmp_path / "load", resume=False, on_status=lambda _: None
        )
        assert server.exit_message() is None
    finally:
        await server.stop()

    assert manifest.status == "complete"
    facts = manifest.variants["bf16"].facts
    assert facts.engine_version == f"vLLM {installation.version}"
    assert facts.effective_cache_dtype == "bfloat16"
    assert facts.kv_capacity_tokens
    assert facts.max_model_len == 1280
    assert facts.prompt_form == "token_ids"
    assert facts.declared == []
    # SmolLM2's server was started without a parser for tool calls, and makes them from a schema when one is required.
    assert set(facts.lacks) <= {"tools"}
    codes = {finding.code: finding.level for finding in manifest.variants["bf16-aa"].findings}
    assert codes == {"unknown": "warning", "aa_same_server": "info", "stepwise": "info"}
    for name in ("bf16", "bf16-aa"):
        answers = list(RunDirectory(tmp_path / "run").records(name))
        assert len(answers) == 6
        assert all(record.error is None and record.logprobs for record in answers)
        assert all(record.prompt_tokens and record.prompt_tokens <= 1024 for record in answers)
        assert {record.expected.method for record in answers if record.expected} == {"stepwise"}
        assert not any(record.expected_error for record in answers)
    assert manifest.variants["bf16"].counters["prompt_tokens"] > 0
    assert load.is_complete
    # The server saw every prompt in the first run, and under a salt of its own each is new to it in the second.
    for name in ("bf16", "bf16-aa"):
        [result] = load.variants[name].levels
        assert result.outcomes == {"completed": 4}
        assert result.prompt_tokens == 4 * 128
        assert result.ttft_ms.n == 4
        assert result.prefix_hit_tokens == 0
        assert result.engine_rss_bytes is None
    folders = [tmp_path / "run", tmp_path / "load"]
    kept = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert all(KEY.encode() not in path.read_bytes() for path in kept)
