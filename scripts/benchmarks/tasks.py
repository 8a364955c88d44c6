"""Measures how fast the prompts of every task are built at 128K, in tokens per second."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from typing import Any

from kveval.models.demo import demo_model
from kveval.tasks.assembly.haystack import build_samples
from kveval.tasks.assembly.prompt import PromptFormat
from kveval.tasks.loader import load_tasks
from kveval.tasks.task import Cell, Task
from kveval.tasks.task_files import list_tasks

_CONTEXT_LENGTH = 128 * 1024
_HAYSTACKS = 4
_QUESTIONS = 10


def measure() -> dict[str, Any]:
    prompt_format = PromptFormat.load(demo_model("smollm2"))
    families: dict[str, dict[str, int]] = defaultdict(dict)
    for name in [task.name for task in list_tasks()]:
        task = load_tasks([name])[name]
        # The first haystack reads and tokenizes the corpus, which a sweep does once however long it is.
        _build(task, prompt_format, haystacks=1)
        started = time.perf_counter()
        tokens = _build(task, prompt_format, _HAYSTACKS)
        families[task.family][name] = round(tokens / (time.perf_counter() - started))
    return {
        "context_length": _CONTEXT_LENGTH,
        "haystacks": _HAYSTACKS,
        "questions_per_haystack": _QUESTIONS,
        "prompt_tokens_per_second": {
            family: {"median_of_tasks": statistics.median(rates.values()), **rates}
            for family, rates in families.items()
        },
    }


def _build(task: Task, prompt_format: PromptFormat, haystacks: int) -> int:
    """Returns the prompt tokens of these haystacks. Every question counts with its whole prompt."""
    cell = Cell(task.name, _CONTEXT_LENGTH, haystacks * _QUESTIONS, _QUESTIONS, haystacks, "essays")
    return sum(len(sample.prompt) for sample in build_samples(task, cell, prompt_format))
