"""One's own prompts and an lm-eval task, asked of a real vLLM server."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import yaml

from kveval.config.sweep import validate_config
from kveval.engines.vllm.installation import find_installation
from kveval.measure.plan.plan import make_plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.run.directory import RunDirectory

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]

PAGE = "The harbour was quiet in the early morning. Fishing boats lay side by side along the stone wall. " * 40
ROWS = [
    {"prompt": f"{PAGE}The code of the gate is 4417. What is the code of the gate?", "answer": 4417, "cluster": "page"},
    {"prompt": f"{PAGE}The boat is called Ada. What is the boat called?", "answer": "Ada", "cluster": "page"},
    {
        "messages": [
            {"role": "system", "content": "You repeat words."},
            {"role": "user", "content": "Repeat: blue"},
            {"role": "assistant", "content": "blue"},
            {"role": "user", "content": "Repeat: green"},
        ],
        "answer": "green",
        "max_output_tokens": 16,
    },
    {"prompt": "Write one sentence about rain.", "scorer": "none", "max_output_tokens": 24},
]


async def test_given_prompts_run_end_to_end(one_engine: None, smollm2: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "docs.json").write_text(json.dumps([{"q": "What is the capital of France?", "a": "Paris"}]))
    guard = {
        "task": "tiny_qa", "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "docs.json")}},
        "output_type": "generate_until", "test_split": "test", "doc_to_text": "{{q}}", "doc_to_target": "{{a}}",
        "generation_kwargs": {"until": ["."], "max_gen_toks": 12}, "metadata": {"version": 1},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    (tmp_path / "guard.yaml").write_text(yaml.safe_dump(guard))
    config = validate_config(
        {
            "model": smollm2,
            "variants": ["bf16"],
            "tasks": [{"file": tmp_path / "rows.jsonl"}, f"lm_eval:{tmp_path / 'guard.yaml'}"],
            "aa_share": 0.0,
            "engine": {"kv_cache_gib": 1, "args": {"enforce-eager": True}},
        }
    )
    plan = make_plan(config, find_installation(config.engine))
    manifest = await sweep(plan, tmp_path / "run", resume=False, reporter=SilentReporter())
    assert manifest.status == "complete"
    run = RunDirectory(tmp_path / "run")
    records = {record.sample_id: record for record in run.records("bf16")}
    samples = {row.sample_id: row for row in run.samples()}
    assert len(records) == 5
    for sample_id, record in records.items():
        assert record.error is None
        assert record.prompt_tokens == samples[sample_id].prompt_tokens
    by_source = {samples[key].doc["source"]: record for key, record in records.items()}
    first, second = by_source["rows.jsonl line 1"], by_source["rows.jsonl line 2"]
    assert first.context_length == second.context_length == 1024
    # The page is prefilled once.
    assert (second.cached_tokens or 0) > 0.8 * (second.prompt_tokens or 0)
    assert by_source["rows.jsonl line 3"].outcome == "correct"
    assert by_source["rows.jsonl line 4"].outcome == "unscored"
    assert "paris" in by_source["lm_eval:tiny_qa document 0"].output.lower()
    assert "." not in by_source["lm_eval:tiny_qa document 0"].output
