"""scripts/nightly: which exit code a night ends with."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support import ROOT

SCRIPT = ROOT / "scripts" / "nightly"


def nightly(tmp_path: Path, *arguments: str, sweep: int, gate: int) -> tuple[int, str]:
    """Exit code, and what was called."""
    stand_in = tmp_path / "kveval"
    stand_in.write_text(
        "#!/usr/bin/env bash\n"
        f'echo "$@" >>{tmp_path}/calls\n'
        'if [ "$1" = gate ]; then mkdir -p "$2"; echo "## summary" >"$2/summary.md"; fi\n'
        f'[ "$1" = sweep ] && exit {sweep} || exit {gate}\n'
    )
    stand_in.chmod(0o755)
    environment = {**os.environ, "KVEVAL": str(stand_in), "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md")}
    done = subprocess.run([SCRIPT, *arguments], env=environment, cwd=tmp_path, capture_output=True, check=False)
    calls = tmp_path / "calls"
    return done.returncode, calls.read_text() if calls.exists() else ""


@pytest.mark.parametrize(
    ("sweep", "gate", "code"),
    [
        (0, 0, 0),
        (0, 1, 1),
        (0, 5, 5),
        (0, 4, 4),
        (3, 3, 3),
        (3, 1, 1),
        (3, 0, 3),
        (3, 2, 3),
        (2, 0, 2),
        (130, 0, 130),
        (1, 0, 70),
        (70, 0, 70),
        (137, 0, 137),
        (0, 70, 70),
        (3, 70, 3),
    ],
)
def test_exit_codes(tmp_path: Path, sweep: int, gate: int, code: int) -> None:
    ended, calls = nightly(tmp_path, "night.yaml", "--out", "runs/x", "--against", "b.json", sweep=sweep, gate=gate)
    assert ended == code
    assert calls.startswith("sweep night.yaml --out runs/x --resume --retry-errors\n")
    judged = "gate runs/x --against b.json" in calls
    assert judged == (sweep in (0, 3))
    assert (tmp_path / "step.md").exists() == judged


@pytest.mark.parametrize("arguments", [[], ["night.yaml", "--out"], ["night.yaml", "--what", "x"]])
def test_usage(tmp_path: Path, arguments: list[str]) -> None:
    assert nightly(tmp_path, *arguments, sweep=0, gate=0) == (2, "")
