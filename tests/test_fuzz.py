"""Broken configurations and task files: no traceback, little time, little memory. `scripts/bench fuzz` tries 10,000."""

from __future__ import annotations

import json
import subprocess
import sys

from support import ROOT

MUTATIONS = 200
# Four times what scripts/bench allows: other tests share the cores, and a valid plan takes seconds on a slow processor.
MOST_SECONDS = 8.0


def test_no_broken_file_ends_in_a_traceback_takes_long_or_fills_the_memory() -> None:
    # A process of its own: its memory is measured, and it changes folders.
    code = (
        f"import json, sys; sys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
        f"from benchmarks.fuzz import run; print(json.dumps(run({MUTATIONS}, 20_000, {MOST_SECONDS})))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2_000:]
    figures = json.loads(result.stdout)
    assert figures["failures"] == 0, "\n\n".join(figures["first_failures"])
    assert set(figures["exit_codes"]) == {"0", "2"}
