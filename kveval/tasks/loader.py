"""lm-evaluation-harness task YAML to `Task`."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from kveval.errors import ConfigError, KvevalError, nearest
from kveval.resources import tasks_directory
from kveval.tasks.dataset import PREVIEW, HaystackDataset
from kveval.tasks.task import Sample, Task
from kveval.tasks.user_code import one_line, user_code

PREFIX = "kveval_"
"""Task names begin with it in YAML, where they live beside lm-eval's own; kveval's users may leave it out."""

_MOST_HASHED_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as it is listed, without loading it.

    Attributes:
        family: name of the folder its YAML is in.
        path: its YAML file.
    """

    name: str
    family: str
    version: str
    description: str
    path: Path


def list_tasks(include_path: Path | None = None) -> list[TaskInfo]:
    """Shipped tasks and those of a user's folder, by family and name. Reads YAML only; does not import lm-eval.

    Raises:
        ConfigError: a file that cannot be read, two tasks of one name, or no such folder.
    """
    found: dict[str, TaskInfo] = {}
    for info in (*_tasks_in(tasks_directory()), *(own_tasks(include_path) if include_path else ())):
        if info.name in found:
            raise ConfigError(f"task {info.name!r} is declared by {found[info.name].path} and by {info.path}")
        found[info.name] = info
    return sorted(found.values(), key=lambda info: (info.family, info.name))


def own_tasks(include_path: Path) -> list[TaskInfo]:
    """The tasks of a user's folder, which may hold other YAML files too: a sweep's configuration, a scorer's data.

    Raises:
        ConfigError: a file that cannot be read, or no such folder.
    """
    if not include_path.is_dir():
        raise ConfigError(f"task folder {include_path} does not exist")
    return list(_tasks_in(include_path))


def hash_task_files(task_file: Path) -> str:
    """sha256 over the files in a task's folder: `version` alone does not tell that its builder or scorer changed.

    Folders within and hidden files do not count; of a file above 10 MB, the size does.
    """
    digest = hashlib.sha256()
    for path in sorted(task_file.parent.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            size = path.stat().st_size
            content = path.read_bytes() if size <= _MOST_HASHED_BYTES else str(size).encode()
            digest.update(f"{path.name}\n".encode())
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def load_tasks(names: Sequence[str], include_path: Path | None = None) -> dict[str, Task]:
    """Loads tasks through lm-eval's own loader, by the names they were asked by, in that order.

    Raises:
        ConfigError: an unknown name, or a task file lm-eval cannot load.
    """
    known = {info.name: info for info in list_tasks(include_path)}
    for name in names:
        if name.removeprefix(PREFIX) not in known:
            raise ConfigError(f"unknown task {name!r}; {nearest(name.removeprefix(PREFIX), known)}")
    return {name: _load(known[name.removeprefix(PREFIX)], {PREVIEW: True}) for name in names}


def task_from_yaml(path: Path, metadata: Mapping[str, Any] | None = None) -> Task:
    """Loads one task file.

    Args:
        metadata: overrides of the file's own metadata.
    """
    return _load(_info(path, read_task_file(path)), {**(metadata or {}), PREVIEW: True})


def _tasks_in(folder: Path) -> Iterator[TaskInfo]:
    for path in sorted(folder.glob("**/*.yaml")):
        declared = _parse(path)
        if isinstance(declared, dict) and isinstance((merged := _merged(path, declared)).get("task"), str):
            yield _info(path, merged)


def _info(path: Path, declared: Mapping[str, Any]) -> TaskInfo:
    metadata = declared.get("metadata") or {}
    if not isinstance(declared.get("task"), str):
        raise ConfigError(f"task file {path} has no 'task' name")
    if not isinstance(metadata, dict) or "version" not in metadata:
        raise ConfigError(f"task file {path} has no metadata.version")
    return TaskInfo(
        name=declared["task"].removeprefix(PREFIX),
        family=path.parent.name,
        version=str(metadata["version"]),
        description=str(metadata.get("description", "")),
        path=path,
    )


class _Reader(yaml.SafeLoader):
    """Reads ``!function`` as text, so that listing tasks imports none of their code."""


_Reader.add_constructor("!function", lambda _, node: node.value)


def read_task_file(path: Path) -> dict[str, Any]:
    """A task file with what it includes, functions as their names.

    Raises:
        ConfigError: it cannot be read, or is no mapping.
    """
    declared = _parse(path)
    if not isinstance(declared, dict):
        raise ConfigError(f"task file {path} is not a mapping of keys to values")
    return _merged(path, declared)


def _merged(path: Path, declared: dict[str, Any]) -> dict[str, Any]:
    included = declared.pop("include", [])
    merged: dict[str, Any] = {}
    for name in included if isinstance(included, list) else [included]:
        merged.update(read_task_file(path.parent / name))
    return {**merged, **declared}


def _parse(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Reader)  # noqa: S506 (a SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"task file {path} cannot be read: {one_line(error)}") from error


def _load(info: TaskInfo, metadata: dict[str, Any]) -> Task:
    with quiet():
        from lm_eval.tasks import TaskManager

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
    if not isinstance(dataset, HaystackDataset):
        raise ConfigError(f"task file {info.path}: custom_dataset is not a HaystackDataset; see tasks/README.md")
    if config.process_results is None:
        raise ConfigError(f"task file {info.path}: process_results is missing; allowed: !function of a scorer")
    generation = config.generation_kwargs or {}
    budget = generation.get("max_gen_toks")
    if not isinstance(budget, int) or budget <= 0:
        raise ConfigError(f"task file {info.path}: generation_kwargs.max_gen_toks={budget!r}; allowed: from 1")
    until = generation.get("until") or []
    return Task(
        name=info.name,
        family=info.family,
        version=info.version,
        description=info.description,
        render=task.doc_to_text,
        score=_scorer(info, task),
        builder=dataset.builder(config.metadata),
        max_output_tokens=budget,
        stop=tuple([until] if isinstance(until, str) else until),
        answer_prefix=lambda doc: task.doc_to_prefix(doc) or "",
        metadata={key: value for key, value in config.metadata.items() if key not in (PREVIEW, "config_source")},
    )


def _scorer(info: TaskInfo, task: Any) -> Callable[[Mapping[str, Any], str], dict[str, float]]:
    where = f"task file {info.path}: process_results"

    def score(doc: Mapping[str, Any], text: str) -> dict[str, float]:
        with user_code(where):
            metrics = task.process_results(doc, [text])
        if not isinstance(metrics, dict) or "score" not in metrics:
            raise ConfigError(f"{where} returns {metrics!r}; allowed: a dict with 'score'")
        for name, value in metrics.items():
            if not isinstance(value, int | float | np.number | np.bool_) or not 0 <= value <= 1:
                raise ConfigError(f"{where} returns {name}={value!r}; allowed: a number from 0 to 1")
        return {str(name): float(value) for name, value in metrics.items()}

    return score


def check_scorer(task: Task, sample: Sample, other: Sample) -> None:
    """Tries a scorer before an engine starts, where a fault costs nothing.

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
    """lm-eval and datasets warn about what kveval does on purpose."""
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
