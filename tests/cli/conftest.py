"""What the tests of commands share: `kveval` in this process, a small configuration, and scripted engines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.commands import Kveval, answer_sweeps, use_installation
from support.scripted import ScriptedEngines

from kveval.cli.app import main
from kveval.engines.base import Installation


@pytest.fixture
def kveval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kveval:
    """`kveval ARGUMENTS`: exit code, standard output, standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kveval", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngines:
    """Engines that answer every question of a sweep rightly."""
    return answer_sweeps(monkeypatch)


@pytest.fixture
def config(
    stand_in: None, checkpoint: Path, installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., str]:
    """Writes a configuration and returns its path. Keyword arguments replace keys. The working directory is empty."""
    use_installation(monkeypatch, installation)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def write(**changes: Any) -> str:
        given = {
            "model": str(checkpoint), "variants": ["bf16", "fp8"], "context_lengths": [512], "tasks": ["niah_single"],
            "samples": 4, "questions_per_haystack": 2, "haystack": "generated", "aa_share": 0.0,
            "cold_check": 0, "out": "runs/nightly",
        }  # fmt: skip
        path = tmp_path / "nightly.yaml"
        path.write_text(yaml.safe_dump(given | changes))
        return str(path)

    return write
