"""Load and the cold check on a real vLLM server."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from kveval.config.sweep import SweepConfig, validate_config
from kveval.engines.vllm.installation import find_installation
from kveval.judge.evidence.cold import cold_comparisons
from kveval.judge.run_data import load_run
from kveval.load.plan import make_load_plan
from kveval.load.run import run_load
from kveval.measure.plan.plan import make_plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.report.html.report import build_report
from kveval.report.sections.cost.capacity import capacity_table
from kveval.run.directory import RunDirectory
from kveval.run.load_results import read_load

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]


def config_of(model: Path, **changes: Any) -> SweepConfig:
    config = {
        "model": model, "variants": ["bf16"], "context_lengths": [1024], "tasks": ["niah_multikey"], "samples": 6,
        "questions_per_haystack": 3, "haystack": "generated", "aa_share": 0.0, "engine": {"kv_cache_gib": 1},
    }  # fmt: skip
    return validate_config(config | changes)


async def test_a_real_server_under_load(one_engine: None, smollm2: Path, tmp_path: Path) -> None:
    load = {
        "concurrency": [1, 3], "request_rates": [2.0], "prompt_lengths": [256], "output_tokens": 16, "requests": 4,
        "warmup_requests": 1, "sample_interval_s": 0.1,
    }  # fmt: skip
    config = config_of(smollm2, load=load)
    plan = make_load_plan(config, find_installation(config.engine))
    document = await run_load(plan, tmp_path / "run", resume=False, on_status=lambda _: None)
    assert document.is_complete, document.variants["bf16"].reason
    assert read_load(tmp_path / "run") == document

    variant = document.variants["bf16"]
    assert variant.startup_s is not None
    assert variant.cold_start_s is not None
    assert 1 < variant.startup_s < variant.cold_start_s
    by_name = {result.level.name: result for result in variant.levels}
    assert list(by_name) == [
        "closed 1, 256 tokens", "closed 3, 256 tokens", "open 2/s, 256 tokens", "longest, 1024 tokens"
    ]  # fmt: skip
    for result in variant.levels:
        asked = result.level.requests
        assert result.outcomes == {"completed": asked}
        assert result.output_tokens == 16 * asked
        assert result.prompt_tokens == result.level.prompt_lengths[0] * asked
        assert result.ttft_ms.n == asked
        # Every token came in a chunk of its own, those without text of their own too.
        assert result.gap_ms.n == 15 * asked
        assert result.prefix_hit_tokens == 0
        assert result.preemptions == 0
        assert result.findings == []
        assert result.running is not None
        assert result.engine_rss_bytes is not None
        assert (result.engine_rss_bytes.peak or 0) > 500 << 20
    busiest = by_name["closed 3, 256 tokens"]
    assert busiest.running is not None
    assert busiest.running.peak == 3
    assert busiest.kv_usage_percent is not None
    assert 0 < (busiest.kv_usage_percent.peak or 0) < 100


async def test_a_real_server_without_its_prefix_cache(one_engine: None, smollm2: Path, tmp_path: Path) -> None:
    config = config_of(smollm2, cold_check=3)
    plan = make_plan(config, find_installation(config.engine))
    manifest = await sweep(plan, tmp_path / "run", resume=False, reporter=SilentReporter())
    assert manifest.status == "complete"

    variant = manifest.variants["bf16"]
    # Two haystacks, of each two questions from the cache; block rounding is the plan's own.
    assert variant.planned_hit_tokens > 4 * 800
    assert variant.counters["prefix_cache_hits"] == pytest.approx(variant.planned_hit_tokens, rel=0.05)
    cold = list(RunDirectory(tmp_path / "run").cold_records("bf16"))
    assert [record.cached_tokens for record in cold] == [0, 0, 0]
    run = load_run(tmp_path / "run")
    warm = run.records["bf16"].loc[[record.sample_id for record in cold]]
    assert (warm["cached_tokens"] > 800).all()
    (check,) = cold_comparisons(run)
    assert (check.asked, check.n, check.unanswered) == (3, 3, 0)
    assert check.hit_share == pytest.approx(check.planned_share, rel=0.05)

    (capacity,) = capacity_table(run)
    assert capacity["reason"] is None
    assert abs(capacity["difference_percent"]) < 1
    assert "With and without the prefix cache" in build_report(tmp_path / "run").read_text()
