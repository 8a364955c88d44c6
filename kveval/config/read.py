"""Reads a sweep configuration from a YAML file or a preset, and puts what a command line gives in its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kveval.config.sweep import SweepConfig, validate_config
from kveval.config.task import task_beside
from kveval.config.values import expanded, is_there
from kveval.errors import ConfigError, nearest
from kveval.resources import presets
from kveval.strict_yaml import read_yaml


def load_config(source: str, overrides: Mapping[str, Any] | None = None) -> SweepConfig:
    """Reads a YAML file, or a preset by its name. `overrides` replace top-level keys.

    Raises:
        ConfigError: no such file or preset, not YAML, or a key or value that cannot be used.
    """
    data = with_overrides(_read(source), overrides or {})
    if not data.get("model"):
        raise ConfigError(
            f"{source}: model: required, not given; use --model with a folder of a Hugging Face checkpoint"
        )
    return validate_config(data, source)


def with_overrides(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys of a configuration with those of a command line in their place."""
    overrides = dict(overrides)
    if "load" in overrides:
        of_file = data.get("load")
        overrides["load"] = {**(of_file if isinstance(of_file, Mapping) else {}), **overrides["load"]}
    for key in ("variants", "tasks"):
        if key in overrides:
            overrides[key] = [_configured(data.get(key), name) for name in overrides[key]]
    tasks = overrides.get("tasks", data.get("tasks"))
    # What the command line gives holds for every task, also for one with its own value.
    settled = overrides.keys() & {"samples", "context_lengths"}
    if settled and isinstance(tasks, list):
        overrides["tasks"] = [
            {key: value for key, value in task.items() if key not in settled} if isinstance(task, Mapping) else task
            for task in tasks
        ]
    return {**data, **overrides}


def _read(source: str) -> dict[str, Any]:
    path = Path(source)
    if not (is_there(path) and path.is_file()):
        shipped = presets()
        if source not in shipped:
            raise ConfigError(f"{source}: neither a file nor a preset; {nearest(source, shipped)}")
        path = shipped[source]
    data = read_yaml(path, source)
    if not isinstance(data, dict):
        raise ConfigError(
            f"{source}: not a mapping of keys to values but {type(data).__name__}; "
            f"use the keys {', '.join(SweepConfig.model_fields)}"
        )
    # A relative path is meant from the file it stands in. If nothing is there, it may name a demo model, or a path
    # from the current folder.
    for key in ("model", "include_path"):
        if isinstance(data.get(key), str):
            beside = path.parent / expanded(Path(data[key]))
            data[key] = str(beside) if is_there(beside) else data[key]
    if isinstance(data.get("tasks"), list):
        data["tasks"] = [task_beside(task, path.parent) for task in data["tasks"]]
    return data


def _configured(entries: Any, name: str) -> Any:
    """Returns the file's entry called `name`, if it has one, so that a flag can choose among its variants or tasks."""
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and name in (entry.get("name"), Path(str(entry.get("file") or "")).stem or None):
            return entry
    return name
