"""The files that ship with kveval are found in a wheel and in the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ROOT

from kveval import resources


def test_in_the_repository_they_lie_beside_the_package() -> None:
    assert resources.tasks_directory() == ROOT / "tasks"
    assert (resources.templates_directory() / "report.css").is_file()


def test_in_a_wheel_they_lie_inside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_data" / "tasks").mkdir(parents=True)
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path)
    assert resources.tasks_directory() == tmp_path / "_data" / "tasks"


def test_presets_are_named_after_their_files() -> None:
    found = resources.presets()
    assert "demo" in found
    assert all(path.is_file() and path.stem == name for name, path in found.items())
