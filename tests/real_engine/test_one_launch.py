"""One launch of a real vLLM server: every task, the user's own prompts, the prefix cache checked, and load on top."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from support.processor import needs_avx512

from kveval.judge.evidence.cold import cold_comparisons
from kveval.judge.run_data import load_run
from kveval.report.sections.cost.section import capacities
from kveval.run.directory import RunDirectory
from kveval.run.load_results import LoadVariant, read_load
from kveval.run.manifest import VariantRun
from kveval.run.records import Outcome, Record, SampleRow
from kveval.tasks.task_files import list_tasks

pytestmark = [
    pytest.mark.vllm,
    needs_avx512,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]

SHARED = "niah_multikey"
"""The task whose questions share haystacks here; every other task asks one question."""
# Chains of hundreds of steps are the short ones with more steps, and do not fit the small window.
TASKS = [task for task in list_tasks() if not (task.family == "reasoning" and task.name.endswith("_long"))]
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
LOAD = {
    "concurrency": [1, 3], "request_rates": [2.0], "prompt_lengths": [256], "output_tokens": 16, "requests": 4,
    "warmup_requests": 1, "sample_interval_s": 0.1,
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    path: Path
    bf16: VariantRun
    load: LoadVariant
    samples: dict[str, SampleRow]
    records: list[Record]

    def of(self, *tasks: str) -> list[Record]:
        return [record for record in self.records if record.task in tasks]

    def of_source(self, source: str) -> Record:
        (record,) = [one for one in self.records if self.samples[one.sample_id].doc.get("source") == source]
        return record


@pytest.fixture(scope="module")
def run(one_engine: None, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("one_launch")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "docs.json").write_text(json.dumps([{"q": "What is the capital of France?", "a": "Paris"}]))
    guard = {
        "task": "tiny_qa", "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "docs.json")}},
        "output_type": "generate_until", "test_split": "test", "doc_to_text": "{{q}}", "doc_to_target": "{{a}}",
        "generation_kwargs": {"until": ["."], "max_gen_toks": 12}, "metadata": {"version": 1},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    (folder / "guard.yaml").write_text(yaml.safe_dump(guard))
    one_question: list[dict[str, Any]] = [
        {"name": task.name, "samples": 1, "questions_per_haystack": 1} for task in TASKS if task.name != SHARED
    ]
    settings = {
        "model": str(smollm2), "variants": ["bf16"], "context_lengths": ["2k"], "aa_share": 0.0, "cold_check": 3,
        "tasks": [
            *one_question,
            {"name": SHARED, "samples": 6, "questions_per_haystack": 3, "context_lengths": ["1k"]},
            {"file": str(folder / "rows.jsonl")},
            f"lm_eval:{folder / 'guard.yaml'}",
        ],
        "engine": {"kv_cache_gib": 1}, "load": LOAD,
    }  # fmt: skip
    config, path = folder / "config.yaml", folder / "run"
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "kveval", "sweep", str(config), "--out", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    directory, load = RunDirectory(path), read_load(path)
    assert load is not None
    return Measured(
        path,
        directory.read_manifest().variants["bf16"],
        load.variants["bf16"],
        {row.sample_id: row for row in directory.samples()},
        list(directory.records("bf16")),
    )


def test_every_task_of_every_family_is_answered_and_scored(run: Measured) -> None:
    assert run.bf16.status == "complete"
    names = {task.name for task in TASKS}
    records = run.of(*names)
    assert {record.task for record in records} == names
    assert {run.samples[record.sample_id].family for record in records} == {task.family for task in TASKS}
    for record in records:
        assert record.error is None, record.task
        assert record.outcome in set(get_args(Outcome)) - {"engine_error", "unscored"}, record.task
        assert record.output_tokens, record.task
        assert len(record.output_token_ids) == record.output_tokens, record.task


def test_prompts_are_as_long_as_was_asked(run: Measured) -> None:
    for record in run.of(*(task.name for task in TASKS)):
        length = 1024 if record.task == SHARED else 2048
        assert record.prompt_tokens == run.samples[record.sample_id].prompt_tokens
        assert length - 8 <= (record.prompt_tokens or 0) <= length, record.task


def test_the_report_names_every_task(run: Measured) -> None:
    text = (run.path / "report.html").read_text(encoding="utf-8")
    assert all(task.name in text for task in TASKS)


def test_without_a_tool_parser_tools_are_text_and_conversations_are_messages(run: Measured) -> None:
    asked_through = RunDirectory(run.path).read_manifest().sampling["asked_through"]
    assert {task: asked_through[task] for task in ("fact_update", "tools_catalogue", "tools_conversation")} == {
        "fact_update": "chat endpoint", "tools_catalogue": "text", "tools_conversation": "text",
    }  # fmt: skip
    assert all(record.logprobs for record in run.of("fact_update", "tools_catalogue", "tools_conversation"))


def test_the_users_own_prompts_share_what_they_have_in_common(run: Measured) -> None:
    first, second = run.of_source("rows.jsonl line 1"), run.of_source("rows.jsonl line 2")
    assert first.context_length == second.context_length == 1024
    assert (second.cached_tokens or 0) > 0.8 * (second.prompt_tokens or 0)


def test_the_users_own_prompts_are_scored_by_their_rows(run: Measured) -> None:
    assert run.of_source("rows.jsonl line 3").outcome == "correct"
    assert run.of_source("rows.jsonl line 4").outcome == "unscored"


def test_a_task_of_lm_eval_is_asked_as_lm_eval_asks(run: Measured) -> None:
    output = run.of_source("lm_eval:tiny_qa document 0").output
    assert "paris" in output.lower()
    assert "." not in output


def test_a_haystack_is_prefilled_once(run: Measured) -> None:
    # Two haystacks of three questions, and the page of the user's two prompts.
    assert run.bf16.planned_hit_tokens > 4 * 800
    assert run.bf16.counters["prefix_cache_hits"] == pytest.approx(run.bf16.planned_hit_tokens, rel=0.05)


def test_cold_answers_come_without_the_prefix_cache(run: Measured) -> None:
    cold = list(RunDirectory(run.path).cold_records("bf16"))
    assert [record.cached_tokens for record in cold] == [0, 0, 0]
    (check,) = cold_comparisons(load_run(run.path))
    assert (check.asked, check.n, check.unanswered) == (3, 3, 0)
    assert check.hit_share == pytest.approx(check.planned_share, rel=0.05)
    assert "With and without the prefix cache" in (run.path / "report.html").read_text()


def test_the_computed_capacity_is_the_servers(run: Measured) -> None:
    ((_, capacity),) = capacities(load_run(run.path))
    assert capacity.reason is None
    assert abs(capacity.difference_percent or 0.0) < 1


def test_every_level_of_load_is_measured_whole(run: Measured) -> None:
    assert run.load.status == "complete", run.load.reason
    by_name = {result.level.name: result for result in run.load.levels}
    assert list(by_name)[:3] == ["closed 1, 256 tokens", "closed 3, 256 tokens", "open 2/s, 256 tokens"]
    assert list(by_name)[3].startswith("longest, ")
    for result in run.load.levels:
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


def test_a_launch_is_timed_to_its_first_token(run: Measured) -> None:
    assert run.load.startup_s is not None
    assert run.load.cold_start_s is not None
    assert 1 < run.load.startup_s < run.load.cold_start_s
