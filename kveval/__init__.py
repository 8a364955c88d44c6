"""Evaluates how much long-context accuracy a quantized KV cache costs.

::

    import kveval

    result = kveval.sweep("nightly.yaml", out="runs/tonight")   # ask every cache setting the same questions
    kveval.gate(result.path, margin=0.02).state                 # "pass", "regression", ...
    kveval.load_run("runs/tonight").records["fp8"]              # every answer, as a pandas table

Each name below is imported when it is first used, so `import kveval` is fast and loads no large library. The commands
of `kveval` call the same functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kveval.errors import (
    IncomparableError,
    InfrastructureError,
    InterruptedRunError,
    KvevalError,
    UsageError,
)

if TYPE_CHECKING:
    from kveval.api.data import fetch_data, list_data
    from kveval.api.load import measure_load, plan_load
    from kveval.api.memory import estimate_memory
    from kveval.api.runs import build_report, diff, gate, load_run, recommend, show_sample
    from kveval.api.sweep import plan_sweep, sweep
    from kveval.api.tasks import example_prompts, list_tasks, load_task, score_answer
    from kveval.config.sweep import SweepConfig
    from kveval.tasks.builders.base import Builder, ChatBuilder, Haystack, Needle, Question
    from kveval.tasks.dataset import HaystackDataset
    from kveval.tasks.sample import Sample
    from kveval.tasks.task import Task

__version__ = "0.1.0"

_OFFERED = {
    "kveval.api.data": ("fetch_data", "list_data"),
    "kveval.api.load": ("measure_load", "plan_load"),
    "kveval.api.memory": ("estimate_memory",),
    "kveval.api.runs": ("build_report", "diff", "gate", "load_run", "recommend", "show_sample"),
    "kveval.api.sweep": ("plan_sweep", "sweep"),
    "kveval.api.tasks": ("example_prompts", "list_tasks", "load_task", "score_answer"),
    "kveval.config.sweep": ("SweepConfig",),
    "kveval.tasks.builders.base": ("Builder", "ChatBuilder", "Haystack", "Needle", "Question"),
    "kveval.tasks.dataset": ("HaystackDataset",),
    "kveval.tasks.sample": ("Sample",),
    "kveval.tasks.task": ("Task",),
}
_HOMES = {name: module for module, names in _OFFERED.items() for name in names}

__all__ = [
    "Builder",
    "ChatBuilder",
    "Haystack",
    "HaystackDataset",
    "IncomparableError",
    "InfrastructureError",
    "InterruptedRunError",
    "KvevalError",
    "Needle",
    "Question",
    "Sample",
    "SweepConfig",
    "Task",
    "UsageError",
    "build_report",
    "diff",
    "estimate_memory",
    "example_prompts",
    "fetch_data",
    "gate",
    "list_data",
    "list_tasks",
    "load_run",
    "load_task",
    "measure_load",
    "plan_load",
    "plan_sweep",
    "recommend",
    "score_answer",
    "show_sample",
    "sweep",
]

if not TYPE_CHECKING:  # a type checker reads the imports above, and reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'kveval' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
