"""Loads lm-evaluation-harness task YAML as a `Task`, through lm-eval's own loader."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kveval.errors import ConfigError, KvevalError, nearest
from kveval.tasks.builders.base import Builder, ChatBuilder
from kveval.tasks.references.form import ReferenceForm
from kveval.tasks.sample import Sample
from kveval.tasks.task import Task
from kveval.tasks.task_files import PREFIX, TaskInfo, list_tasks, read_task_file, task_info
from kveval.tasks.templates import guard_lm_eval
from kveval.tasks.user_code import one_line, user_code

PREVIEW = "kveval_preview"
"""Metadata key that asks a task's dataset for one document without context: enough to load the task."""

_NOT_OF_SAMPLES = (PREVIEW, "config_source", "reference")


@runtime_checkable
class BuilderDataset(Protocol):
    """What a task's ``custom_dataset`` must be; `kveval.tasks.dataset.HaystackDataset` is one."""

    def builder(self, metadata: Mapping[str, Any]) -> Builder:
        """Makes the task's builder from its YAML's metadata."""
        ...


def load_tasks(names: Sequence[str], include_path: Path | None = None) -> dict[str, Task]:
    """Loads tasks in the given order. The result has the names as they were given, with or without the prefix.

    Raises:
        ConfigError: an unknown name, or a task file lm-eval cannot load.
    """
    known = {info.name: info for info in list_tasks(include_path)}
    for name in names:
        if name.removeprefix(PREFIX) not in known:
            raise ConfigError(f"unknown task {name!r}; {nearest(name.removeprefix(PREFIX), known)}")
    return {name: _load(known[name.removeprefix(PREFIX)], {PREVIEW: True}) for name in names}


def task_from_yaml(path: Path, metadata: Mapping[str, Any] | None = None) -> Task:
    """Loads one task file. `metadata` overrides the file's own."""
    return _load(task_info(path, read_task_file(path)), {**(metadata or {}), PREVIEW: True})


def _load(info: TaskInfo, metadata: dict[str, Any]) -> Task:
    with quiet():
        from lm_eval.tasks import TaskManager

        guard_lm_eval()
        try:
            manager = TaskManager(include_path=str(info.path.parent), include_defaults=False, metadata=metadata)
            task = next(iter(manager.load([str(info.path)])["tasks"].values()))
            # lm-eval itself renders no more than doc_to_text before the first question.
            task.doc_to_prefix(next(iter(task.eval_docs)))
        except ConfigError as error:
            raise ConfigError(f"task file {info.path}: {error}") from error
        except KvevalError:
            raise
        except Exception as error:  # lm-eval, jinja and a user's own code raise whatever they like
            raise ConfigError(f"task file {info.path} cannot be loaded: {one_line(error)}") from error
    return _task(info, task)


def _task(info: TaskInfo, task: Any) -> Task:
    config = task.config
    dataset = config.custom_dataset
    if not isinstance(dataset, BuilderDataset):
        raise ConfigError(f"task file {info.path}: custom_dataset is not a HaystackDataset; see tasks/README.md")
    if config.process_results is None:
        raise ConfigError(f"task file {info.path}: process_results is missing; use !function with a scorer")
    generation = config.generation_kwargs or {}
    if not isinstance(generation, Mapping):
        raise ConfigError(f"task file {info.path}: generation_kwargs={generation!r}; use keys with values")
    budget = generation.get("max_gen_toks")
    if not isinstance(budget, int) or budget <= 0:
        raise ConfigError(
            f"task file {info.path}: generation_kwargs.max_gen_toks={budget!r}; use a whole number from 1"
        )
    builder = dataset.builder(config.metadata)
    try:
        reference = ReferenceForm.from_metadata(config.metadata)
        stop = stop_texts(generation)
    except ConfigError as error:
        raise ConfigError(f"task file {info.path}: {error}") from error
    return Task(
        name=info.name,
        family=info.family,
        version=info.version,
        description=info.description,
        render=task.doc_to_text,
        score=_scorer(info, task),
        builder=builder,
        max_output_tokens=budget,
        stop=stop,
        answer_prefix=lambda doc: task.doc_to_prefix(doc) or "",
        chat_form=builder.chat_form if isinstance(builder, ChatBuilder) else None,
        metadata={key: value for key, value in config.metadata.items() if key not in _NOT_OF_SAMPLES},
        reference=reference,
    )


def stop_texts(generation: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns ``until`` of a task's ``generation_kwargs``. Raises ConfigError if it is no text and no list of texts."""
    until = generation.get("until") or []
    stop = [until] if isinstance(until, str) else until
    if not isinstance(stop, list | tuple) or not all(isinstance(text, str) for text in stop):
        raise ConfigError(f"generation_kwargs.until={until!r}; use text, or a list of texts")
    return tuple(stop)


def _scorer(info: TaskInfo, task: Any) -> Callable[[Mapping[str, Any], str], dict[str, float]]:
    where = f"task file {info.path}: process_results"

    def score(doc: Mapping[str, Any], text: str) -> dict[str, float]:
        with user_code(where):
            metrics = task.process_results(doc, [text])
        if not isinstance(metrics, dict) or "score" not in metrics:
            raise ConfigError(f"{where} returns {metrics!r}; use a dict with 'score'")
        for name, value in metrics.items():
            if not isinstance(value, int | float | np.number | np.bool_) or not 0 <= value <= 1:
                raise ConfigError(f"{where} returns {name}={value!r}; use a number from 0 to 1")
        return {str(name): float(value) for name, value in metrics.items()}

    return score


def check_scorer(task: Task, sample: Sample, other: Sample) -> None:
    """Tries a scorer before an engine starts, when a fault costs nothing.

    Raises:
        ConfigError: it fails on one of a few texts as models write them, or returns no metrics in [0, 1].
    """
    texts = {
        "the references": ", ".join(sample.doc["answers"]),
        "an empty output": "",
        "the output 'not stated'": "not stated",
        "another sample's references": ", ".join(other.doc["answers"]),
    }
    for kind, text in texts.items():
        try:
            task.score(sample.doc, text)
        except ConfigError as error:
            raise ConfigError(f"{error} (tried on {kind})") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silences warnings of lm-eval and datasets about things that kveval does on purpose."""
    loggers = [logging.getLogger(name) for name in ("lm_eval", "datasets", "transformers")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
