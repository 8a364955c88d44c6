"""Every task kveval ships, asked of a real vLLM server."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import get_args

import pytest

from kveval.config.sweep import validate_config
from kveval.engines.vllm.installation import find_installation
from kveval.measure.plan.plan import Plan, make_plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.report.html.report import build_report
from kveval.run.directory import RunDirectory
from kveval.run.records import Outcome
from kveval.tasks.loader import list_tasks

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]

FAMILIES = {
    "needle", "multidoc_qa", "coverage", "code", "long_decode", "structured", "tool_calls", "conversation",
}  # fmt: skip


@pytest.fixture
def plan(smollm2: Path) -> Plan:
    config = validate_config(
        {
            "model": smollm2,
            "variants": ["bf16"],
            "tasks": [task.name for task in list_tasks()],
            "context_lengths": ["2k"],
            "samples": 1,
            "questions_per_haystack": 1,
            "aa_share": 0.0,
            "engine": {"kv_cache_gib": 1, "args": {"enforce-eager": True}},
        }
    )
    return make_plan(config, find_installation(config.engine))


async def test_every_task_runs_end_to_end(one_engine: None, plan: Plan, tmp_path: Path) -> None:
    manifest = await sweep(plan, tmp_path / "run", resume=False, reporter=SilentReporter())
    assert manifest.status == "complete"
    run = RunDirectory(tmp_path / "run")
    samples = {row.sample_id: row for row in run.samples()}
    records = list(run.records("bf16"))
    assert {record.task for record in records} == {task.name for task in list_tasks()}
    assert {samples[record.sample_id].family for record in records} == FAMILIES
    for record in records:
        assert record.error is None, record.task
        assert record.outcome in set(get_args(Outcome)) - {"engine_error", "unscored"}, record.task
        assert 0 <= (record.score or 0.0) <= 1
        assert record.output_tokens, record.task
        assert record.prompt_tokens == samples[record.sample_id].prompt_tokens
        assert 2040 <= (record.prompt_tokens or 0) <= 2048, record.task
    text = build_report(tmp_path / "run").read_text(encoding="utf-8")
    assert all(task.name in text for task in list_tasks())
