"""A second real engine: llama.cpp's server with an f16 and a natively stored q8_0 cache (scripts/setup-llama-cpp)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import ROOT

from kveval.config.sweep import validate_config
from kveval.engines.base import NOTHING_TO_LAUNCH
from kveval.engines.process import free_port
from kveval.measure.plan.plan import make_plan
from kveval.measure.progress import SilentReporter
from kveval.measure.sweep import sweep
from kveval.models.demo import DEMO_MODELS, fetch_gguf
from kveval.report.documents.summary import summary
from kveval.report.html.report import build_report
from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest

PYTHON = ROOT / ".venv-llama" / "bin" / "python"
WINDOW = 2304
KEY = "sk-llama-cpp-test"
# ggml's numbers of cache types.
TYPES = {"f16": 1, "q8_0": 8}

pytestmark = [
    pytest.mark.llama_cpp,
    pytest.mark.skipif(not PYTHON.is_file(), reason="scripts/setup-llama-cpp was not run"),
    pytest.mark.timeout(3000),
    pytest.mark.usefixtures("one_engine"),
]


@contextlib.contextmanager
def llama_server(gguf: Path, stored: str, log_path: Path) -> Iterator[str]:
    """The address of a server whose K and V are stored as `stored`, on the same kernel for both types."""
    port = free_port()
    flags = {
        "model": gguf, "model_alias": f"smollm2-{stored}", "host": "127.0.0.1", "port": port, "n_ctx": WINDOW,
        "type_k": TYPES[stored], "type_v": TYPES[stored], "flash_attn": True, "n_threads": os.cpu_count(),
        "n_threads_batch": os.cpu_count(), "interrupt_requests": False, "api_key": KEY, "logits_all": False,
    }  # fmt: skip
    command = [str(PYTHON), "-m", "llama_cpp.server", *(f"--{name}={value}" for name, value in flags.items())]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait(f"http://127.0.0.1:{port}/v1/models", process, log_path)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
    for _ in range(240):
        assert process.poll() is None, log_path.read_text(errors="replace")[-2000:]
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, headers={"authorization": f"Bearer {KEY}"}).status_code == 200:
                return
        time.sleep(0.5)
    raise AssertionError(f"no answer from {url}: {log_path.read_text(errors='replace')[-2000:]}")


def _variant(stored: str, url: str) -> dict[str, Any]:
    declared = {
        "engine_version": "llama-cpp-python 0.3.36", "device": "cpu", "attention_backend": "ggml flash attention",
        "max_model_len": WINDOW, "max_num_seqs": 1,
    }  # fmt: skip
    return {
        "name": stored,
        "kv_cache_dtype": stored,
        "endpoint": {
            "url": url, "model": f"smollm2-{stored}", "api_key_env": "LLAMA_TEST_KEY", "declared": declared,
        },
    }  # fmt: skip


def test_native_q8_0_against_f16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_TEST_KEY", KEY)
    gguf = fetch_gguf(DEMO_MODELS["smollm2"], tmp_path / "smollm2.gguf")
    out = Path(os.environ.get("KVEVAL_LLAMA_OUT") or tmp_path / "run")
    samples = int(os.environ.get("KVEVAL_LLAMA_SAMPLES") or 20)
    with contextlib.ExitStack() as running:
        urls = {name: running.enter_context(llama_server(gguf, name, tmp_path / f"{name}.log")) for name in TYPES}
        config = validate_config(
            {
                "model": "smollm2",
                "variants": [_variant(name, url) for name, url in urls.items()],
                "baseline": "f16",
                "context_lengths": [1024, 2048],
                # The samples of the demo preset at these lengths, and more if asked for.
                "tasks": ["niah_multikey", {"name": "niah_single", "samples": samples // 2}],
                "samples": samples,
                "aa_share": 0.2,
                # This server makes logprobs of every token of the prompt for those of the answer: 10 s a question.
                "requests": {"logprobs": 0},
            }
        )
        plan = make_plan(config, NOTHING_TO_LAUNCH)
        manifest = asyncio.run(sweep(plan, out, resume=False, reporter=SilentReporter()))
        assert all(httpx.get(f"{url}/v1/models").status_code == 401 for url in urls.values()), "left running"

    assert manifest.status == "complete"
    _check_facts(manifest)
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for name in TYPES:
        for record in RunDirectory(out).records(name):
            assert record.error is None, record.error
            assert record.output.strip()
            assert record.prompt_tokens
            scores[name, record.task].append(record.score)
    # A model that reads its cache finds single needles; on a broken cache it finds none.
    assert sum(scores["f16", "niah_single"]) >= len(scores["f16", "niah_single"]) / 2
    assert sum(scores["q8_0", "niah_single"]) >= len(scores["q8_0", "niah_single"]) / 3
    build_report(out)
    assert summary(out)["variants"]["q8_0"]["declared"]
    assert all(KEY.encode() not in path.read_bytes() for path in out.rglob("*") if path.is_file())


def _check_facts(manifest: Manifest) -> None:
    for name in TYPES:
        variant = manifest.variants[name]
        facts = Facts.model_validate(variant.facts)
        assert facts.effective_cache_dtype == ("float16" if name == "f16" else "q8_0")
        assert {"effective_cache_dtype", "engine_version", "attention_backend"} <= set(facts.declared)
        assert facts.kv_capacity_tokens is None
        assert facts.prompt_form in ("text", "text_without_bos")
        # What it was seen to lack; fields such as cache_salt it accepts and ignores.
        assert {"token_ids", "streamed_usage", "perplexity", "cache_salt", "metrics"} <= set(facts.lacks)
        assert "error" not in {finding.level for finding in variant.findings}
        assert {"declared", "unknown", "no_token_ids"} <= {finding.code for finding in variant.findings}
