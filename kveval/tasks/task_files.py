"""Finds task files and reads their YAML, without lm-eval and without importing any of their code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kveval.errors import ConfigError
from kveval.resources import tasks_directory
from kveval.strict_yaml import read_yaml

PREFIX = "kveval_"
"""Begins every task name in YAML, to tell it from lm-eval's own. Users of kveval may leave it out."""

_MOST_HASHED_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as it is listed, without loading it.

    Attributes:
        family: name of the folder its YAML is in.
    """

    name: str
    family: str
    version: str
    description: str
    path: Path


def list_tasks(include_path: Path | None = None) -> list[TaskInfo]:
    """Lists the shipped tasks and those of a user's folder, by family and name. Reads YAML only.

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
    """Lists the tasks of a user's folder. It may hold other YAML files too, such as a sweep's configuration."""
    if not include_path.is_dir():
        raise ConfigError(f"task folder {include_path} does not exist")
    return list(_tasks_in(include_path))


def hash_task_files(task_file: Path) -> str:
    """Hashes the files in a task's folder, since `version` alone does not tell that a builder or scorer changed.

    Leaves out subfolders and hidden files. Of a file above 10 MB only the size counts.
    """
    digest = hashlib.sha256()
    for path in sorted(task_file.parent.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            size = path.stat().st_size
            content = path.read_bytes() if size <= _MOST_HASHED_BYTES else str(size).encode()
            digest.update(f"{path.name}\n".encode())
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def _tasks_in(folder: Path) -> Iterator[TaskInfo]:
    for path in sorted(folder.glob("**/*.yaml")):
        declared = _parse(path)
        if isinstance(declared, dict) and isinstance((merged := _merged(path, declared)).get("task"), str):
            yield task_info(path, merged)


def task_info(path: Path, declared: Mapping[str, Any]) -> TaskInfo:
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


def read_task_file(path: Path) -> dict[str, Any]:
    """Reads a task file and the files it includes. Functions are given by their names."""
    declared = _parse(path)
    if not isinstance(declared, dict):
        raise ConfigError(f"task file {path} is not a mapping of keys to values")
    return _merged(path, declared)


def _merged(path: Path, declared: dict[str, Any], including: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Returns the keys of a task file and of those it includes. `including`: the files that lead to this one."""
    included = declared.pop("include", [])
    merged: dict[str, Any] = {}
    for name in included if isinstance(included, list) else [included]:
        if not isinstance(name, str):
            raise ConfigError(f"task file {path}: include: {name!r} is not a file; use: the name of a YAML file")
        file = path.parent / name
        if file.resolve() in (chain := (*including, path.resolve())):
            raise ConfigError(f"task file {path}: include: {name} includes this file again")
        content = _parse(file)
        if not isinstance(content, dict):
            raise ConfigError(f"task file {file} is not a mapping of keys to values")
        merged.update(_merged(file, content, chain))
    return {**merged, **declared}


def _parse(path: Path) -> Any:
    # ``!function`` is read as text, so that listing tasks imports none of their code.
    return read_yaml(path, f"task file {path} cannot be read", text_tags=("!function",))
