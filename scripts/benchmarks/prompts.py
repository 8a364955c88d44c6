"""Measures how prompts are built: speed, peak memory, and how much text is tokenized."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kveval.tasks.assembly.tokenizer import Encoding, Tokenizer

_HAYSTACKS = 64
_QUESTIONS = 10
_CONTEXT_LENGTH = 128 * 1024
_REPETITIONS = 3


def measure() -> dict[str, Any]:
    here = str(Path(__file__).resolve().parents[1])
    runs = []
    for _ in range(_REPETITIONS):
        command = [sys.executable, "-c", "from benchmarks.prompts import report; report()"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=here)
        runs.append(json.loads(done.stdout))
    return {
        "haystacks": _HAYSTACKS,
        "questions_per_haystack": _QUESTIONS,
        "context_length": _CONTEXT_LENGTH,
        "haystack_style": "essays",
        "repetitions": _REPETITIONS,
        **{key: statistics.median(run[key] for run in runs) for key in runs[0]},
    }


def report() -> None:
    """Builds once and prints the figures. Run it in a new process, or the peak memory means nothing."""
    from kveval.models.demo import demo_model
    from kveval.tasks.assembly.haystack import build_samples
    from kveval.tasks.assembly.prompt import PromptFormat
    from kveval.tasks.loader import load_tasks
    from kveval.tasks.task import Cell

    name = "niah_multikey"
    task = load_tasks([name])[name]
    prompt_format = PromptFormat.load(demo_model("smollm2"))
    counting = _CountingTokenizer(prompt_format.tokenizer)
    cell = Cell(name, _CONTEXT_LENGTH, _HAYSTACKS * _QUESTIONS, _QUESTIONS, 0, "essays")

    before = _peak_bytes()
    started = time.perf_counter()
    samples = build_samples(task, cell, replace(prompt_format, tokenizer=counting))
    seconds = time.perf_counter() - started
    prompt_tokens = sum(len(sample.prompt) for sample in samples)
    # A sweep hashes each prompt for samples.jsonl and joins its parts for the request.
    for sample in samples:
        sample.prompt.sha256()
        sample.prompt.token_ids()
    used = time.perf_counter() - started
    shared = {id(sample.prompt.shared): len(sample.prompt.shared) for sample in samples}
    figures = {
        "prompt_tokens": prompt_tokens,
        "prompt_tokens_per_second": round(prompt_tokens / seconds),
        "prompt_tokens_per_second_with_hashing": round(prompt_tokens / used),
        "assembled_tokens": sum(shared.values()) + sum(len(sample.prompt.tail) for sample in samples),
        "tokenized_tokens": counting.tokens,
        "build_seconds": round(seconds, 3),
        "before_building_mb": round(before / 1e6),
        "peak_mb": round(_peak_bytes() / 1e6),
        "growth_mb": round((_peak_bytes() - before) / 1e6),
    }
    print(json.dumps(figures))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class _CountingTokenizer:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.name = tokenizer.name
        self.vocab_size = tokenizer.vocab_size
        self.special_ids = tokenizer.special_ids
        self.tokens = 0

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        encodings = self._tokenizer.encode(texts)
        self.tokens += sum(len(encoding.ids) for encoding in encodings)
        return encodings

    def decode(self, ids: Iterable[int]) -> str:
        return self._tokenizer.decode(ids)

    def encode_prompt(self, text: str) -> Encoding:
        return self._tokenizer.encode_prompt(text)
