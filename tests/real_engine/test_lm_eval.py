"""Plain lm-evaluation-harness asks kveval's tasks of a real vLLM server, without kveval in between."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processor import needs_avx512

from kveval.config.engine import EngineConfig
from kveval.config.variant import VariantConfig
from kveval.engines.variants import ResolvedVariant
from kveval.engines.vllm.engine import VLLMEngine
from kveval.engines.vllm.installation import find_vllm
from kveval.resources import tasks_directory
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.loader import load_tasks
from kveval.tasks.task import Cell

pytestmark = [
    pytest.mark.vllm,
    needs_avx512,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="no vLLM in this environment"),
]

TASK = "kveval_niah_single"
LENGTHS = (512, 1024)
SAMPLES = 4


async def lm_eval(model: Path, base_url: str, served: str, out: Path) -> None:
    """Runs it as tasks/README.md says.

    Raises:
        AssertionError: it failed; with what it printed.
    """
    metadata = {"tokenizer": str(model), "context_lengths": LENGTHS, "samples": SAMPLES, "haystack": "generated"}
    # max_length would otherwise be 2048, and what is longer be cut without a word.
    arguments = f"model={served},base_url={base_url}/v1/completions,tokenizer={model},max_length=2048,num_concurrent=2"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args", arguments,
        "--include_path", str(tasks_directory()), "--tasks", TASK, "--metadata", json.dumps(metadata),
        "--output_path", str(out), "--log_samples",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode(errors="replace")[-4000:]


def read_only(out: Path, pattern: str) -> str:
    (path,) = out.rglob(pattern)
    return path.read_text(encoding="utf-8")


async def test_plain_lm_eval_scores_kvevals_prompts(one_engine: None, smollm2: Path, tmp_path: Path) -> None:
    engine = VLLMEngine(
        ResolvedVariant("bf16", VariantConfig(name="bf16", kv_cache_dtype="bfloat16"), "bfloat16", None, "baseline"),
        config=EngineConfig(kv_cache_gib=1, args={"enforce-eager": True}),
        installation=find_vllm(EngineConfig()),
        model=smollm2,
        max_model_len=2048,
        logprobs=20,
        log_path=tmp_path / "engine.log",
    )
    try:
        await engine.start(lambda _: None)
        await lm_eval(smollm2, engine.base_url, engine.model_name, tmp_path / "out")
    finally:
        await engine.stop()

    metrics: dict[str, Any] = json.loads(read_only(tmp_path / "out", "results_*.json"))["results"][TASK]
    rows = [json.loads(line) for line in read_only(tmp_path / "out", "samples_*.jsonl").splitlines()]
    rows.sort(key=lambda row: row["doc_id"])

    task = load_tasks([TASK])[TASK]
    prompt_format = PromptFormat.load(smollm2, "completion")
    expected = [
        prompt_format.decode(sample.prompt.token_ids()[len(prompt_format.prefix_ids) :])
        for length in LENGTHS
        for sample in build_samples(task, Cell(task.name, length, SAMPLES, 10, 0, "generated"), prompt_format)
    ]
    assert [row["arguments"]["gen_args_0"]["arg_0"] for row in rows] == expected
    scores = [task.score(row["doc"], row["resps"][0][0])["score"] for row in rows]
    assert [row["score"] for row in rows] == scores
    assert metrics["score,none"] == pytest.approx(sum(scores) / len(scores))
    # A model of this size finds single needles at these lengths; a cut or garbled prompt has none.
    assert metrics["score,none"] >= 0.5
