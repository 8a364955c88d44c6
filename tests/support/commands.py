"""Calls commands and checks how they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Kveval = Callable[..., tuple[int, str, str]]
"""The fixture `kveval`: exit code, standard output, standard error."""


def refused(result: tuple[int, str, str], *words: str) -> None:
    """Checks for exit code 2, nothing on standard output, one line that holds `words`, and no run directory."""
    code, out, err = result
    assert code == 2, err
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("planning: ")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]
    assert not Path("runs").exists()
