"""Calls commands with scripted engines, and checks how they refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kveval.api import doctor, load, source, sweep
from kveval.engines.base import Installation
from kveval.load.run import run_load
from kveval.measure.sweep import sweep as ask_variants

from .scripted import AnswersEveryPlan, ScriptedEngines

Kveval = Callable[..., tuple[int, str, str]]
"""The fixture `kveval`: exit code, standard output, standard error."""


def refused(result: tuple[int, str, str], *words: str) -> None:
    """Checks for exit code 2, nothing on standard output, one error that holds `words`, and no run directory."""
    code, out, err = result
    assert code == 2, err
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith(("planning: ", "warning: "))]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
    assert not Path("runs").exists()


def use_installation(monkeypatch: pytest.MonkeyPatch, installation: Installation) -> None:
    """Makes commands and `import kveval` find this engine on the machine."""
    for module in (doctor, source):
        monkeypatch.setattr(module, "find_installation", lambda _: installation)


def answer_sweeps(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngines:
    """Makes every sweep ask scripted engines, which answer every question rightly."""
    engines = AnswersEveryPlan()
    monkeypatch.setattr(sweep, "ask_variants", partial(ask_variants, open_engine=engines))
    return engines


def answer_loads(monkeypatch: pytest.MonkeyPatch, engines: ScriptedEngines) -> ScriptedEngines:
    """Makes every load measurement use scripted engines and made-up prompts."""
    open_engine: Any = engines
    monkeypatch.setattr(load, "run_load", partial(run_load, open_engine=open_engine))
    monkeypatch.setattr("kveval.load.stage.ordinary_tokens", lambda *_: tuple(range(100, 400)))
    monkeypatch.setattr("kveval.measure.provenance.git_state", lambda _: None)
    return engines
