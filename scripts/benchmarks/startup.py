"""Measures how long `kveval --help` takes, and which large libraries `import kveval` loads."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_REPETITIONS = 9
_HEAVY = ("torch", "vllm", "lm_eval", "transformers", "pandas", "numpy")


def measure() -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "kveval"), "--help"]
    subprocess.run(command, check=True, capture_output=True)
    seconds = sorted(_wall_seconds(command) for _ in range(_REPETITIONS))
    imported = f"import sys, kveval; print(*(name for name in {_HEAVY!r} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", imported], check=True, capture_output=True, text=True)
    return {
        "help_seconds_median": round(statistics.median(seconds), 3),
        "help_seconds_least": round(seconds[0], 3),
        "repetitions": _REPETITIONS,
        "heavy_modules_of_import_kveval": found.stdout.split(),
    }


def _wall_seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started
