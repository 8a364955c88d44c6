"""Finds the files that ship with kveval: task YAML, report templates, presets."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def _shipped(in_wheel: str, in_repository: str) -> Path:
    packaged = _PACKAGE / "_data" / in_wheel
    return packaged if packaged.is_dir() else _PACKAGE.parent / in_repository


def tasks_directory() -> Path:
    """Returns the folder of ``<family>/*.yaml`` in lm-evaluation-harness's task schema."""
    return _shipped("tasks", "tasks")


def templates_directory() -> Path:
    """Returns the folder of the report's jinja2 templates, styles and scripts."""
    return _shipped("templates", "reports/templates")


def presets() -> dict[str, Path]:
    """Returns the sweep configurations that ship with kveval, by name."""
    return {path.stem: path for path in sorted((_PACKAGE / "presets").glob("*.yaml"))}
