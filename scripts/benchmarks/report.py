"""The report of a large run: how long it takes to build, how big it is, and how soon a browser shows it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kveval.run.directory import RunDirectory
from kveval.run.facts import Facts
from kveval.run.manifest import Manifest, VariantRun
from kveval.run.records import Record, SampleRow, ids_sha256, pack_logprobs
from kveval.run.storage import to_json

SAMPLES, FLIPS = 10_000, 500
_LENGTHS = (4_096, 8_192, 16_384, 32_768, 65_536)
_TASKS = {"niah_multikey": "needle", "multidoc_qa": "qa", "tool_calls": "tools", "variables": "tracking"}
_QUESTIONS = 10
_ALTERNATIVES = 20
_TOKENS = 24
_VARIANTS = {
    "bf16": ("baseline", None), "bf16-aa": ("aa", "bf16"), "fp8": ("candidate", None), "int8": ("candidate", None),
    "fp8-control": ("control", "fp8"),
}  # fmt: skip
# Of all samples, which ones each variant gets wrong; together they make at least the flips asked for.
_WRONG = {"bf16": 0.10, "bf16-aa": 0.10, "fp8": 0.10 + 0.65 * FLIPS / SAMPLES, "int8": 0.10 + 0.45 * FLIPS / SAMPLES,
          "fp8-control": 0.10}  # fmt: skip

_BUILD = """
import json, resource, sys, time
from pathlib import Path
started, started_cpu = time.perf_counter(), time.process_time()
from kveval.report.html.report import build_report
build_report(Path(sys.argv[1]))
print(json.dumps({"seconds": round(time.perf_counter() - started, 2),
                  "cpu_seconds": round(time.process_time() - started_cpu, 2),
                  "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""
_FIRST_VIEW = """() => new Promise(resolve => {
  const seen = () => performance.getEntriesByName('first-contentful-paint')[0];
  const wait = () => seen() ? resolve({
    first_paint_ms: Math.round(seen().startTime),
    loaded_ms: Math.round(performance.getEntriesByType('navigation')[0].loadEventEnd),
  }) : requestAnimationFrame(wait);
  wait();
})"""


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder) / "run")
        built = subprocess.run([sys.executable, "-c", _BUILD, str(run)], capture_output=True, text=True, check=True)
        report = run / "report.html"
        return {
            "records": SAMPLES * len(_VARIANTS),
            "flips_shown": report.read_text(encoding="utf-8").count('<details class="flip"'),
            "build": json.loads(built.stdout),
            "file_bytes": report.stat().st_size,
            "first_view": _first_view(report),
        }


def write_run(path: Path) -> Path:
    """50,000 records of five variants, with logprobs and outputs of 24 tokens, as in the demo."""
    rows = list(_samples())
    variants = {
        name: VariantRun(
            name=name, role=role, of=of, spec={"kv_cache_dtype": name}, status="complete",  # type: ignore[arg-type]
            facts=Facts(engine_version="0.32.0", storage="native", kv_capacity_tokens=100_000, kv_capacity_ratio=2.0,
                        attention_backend="FLASH_ATTN"),
        )
        for name, (role, of) in _VARIANTS.items()
    }  # fmt: skip
    manifest = Manifest(
        kveval_version="0.1.0", run_id="bench", created="2026-01-02T03:04:05Z", finished="2026-01-02T04:04:05Z",
        status="complete", config={}, inputs={}, seeds={}, sampling={}, samples=len(rows),
        samples_sha256=ids_sha256(row.sample_id for row in rows), baseline="bf16", variants=variants, versions={},
        machine={}, command=["kveval", "sweep", "bench"],
        aa_sample_ids=[row.sample_id for row in rows],
    )  # fmt: skip
    with RunDirectory(path).locked() as run:
        run.write_manifest(manifest)
        run.write_samples(rows)
        for name in variants:
            lines = (to_json(_record(row, name).model_dump(mode="json")) + "\n" for row in rows)
            with run.records_path(name).open("w", encoding="utf-8") as file:
                file.writelines(lines)
    return path


def _samples() -> Iterator[SampleRow]:
    cells = [(task, length) for task in _TASKS for length in _LENGTHS]
    for index in range(SAMPLES):
        task, length = cells[index * len(cells) // SAMPLES]
        digest = hashlib.sha256(str(index).encode()).hexdigest()
        yield SampleRow(
            sample_id=digest[:16], haystack_id=f"{index // _QUESTIONS}", task=task, family=_TASKS[task],
            context_length=length, prompt_tokens=length, prompt_sha256=digest, first_token_ids=[1],
            depth_percent=100 * (index % _QUESTIONS + 0.5) / _QUESTIONS, max_output_tokens=64, stop=[],
            doc={
                "question": f"What is the special magic number for key {digest[:8]} in the text?",
                "answers": [digest[:7]],
                "excerpts": [f"{'It is surprisingly nice. ' * 10}The number is {digest[:7]}.{' No focus group.' * 10}"],
            },
        )  # fmt: skip


def _record(row: SampleRow, variant: str) -> Record:
    fate = int(row.prompt_sha256[-8:], 16) / 2**32
    right = fate >= _WRONG[variant]
    generator = np.random.default_rng(int(row.prompt_sha256[:8], 16))
    ids = generator.integers(0, 30_000, (_TOKENS, _ALTERNATIVES), dtype=np.int32)
    logprobs = np.sort(generator.normal(-4, 2, (_TOKENS, _ALTERNATIVES)).clip(-9, -3.5), axis=1)[:, ::-1].astype(
        np.float32
    )
    chosen = ids[:, 0].tolist()
    if not right:
        chosen[12] = int(ids[12, 1])
    words = f"The special magic number mentioned in the long text is {row.prompt_sha256[:7] if right else 4096}. "
    return Record(
        sample_id=row.sample_id, haystack_id=row.haystack_id, variant=variant, task=row.task, family=row.family,
        context_length=row.context_length, depth_percent=row.depth_percent, outcome="correct" if right else "wrong",
        score=float(right), metrics={f"score_q{k}": float(right) for k in range(1, 5)}, output=words * 3,
        finish_reason="stop", prompt_tokens=row.prompt_tokens, cached_tokens=0, output_tokens=_TOKENS,
        output_token_ids=chosen, sent_at=1.0, ttft_ms=100.0 + 400 * fate, itl_ms=10.0 + fate, total_ms=900.0,
        logprobs=pack_logprobs(ids, np.ascontiguousarray(logprobs)),
    )  # fmt: skip


def _first_view(report: Path) -> dict[str, Any]:
    chromium = os.environ.get("KVEVAL_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        return {"skipped": "no chromium on this machine"}
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(report.as_uri())
            return {"browser": browser.version, **page.evaluate(_FIRST_VIEW)}
        finally:
            browser.close()
