"""Records what a run was made with: versions, machine, git state, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

import kveval

_PACKAGES = ("kveval", "lm-eval", "datasets", "transformers", "torch", "numpy", "pandas", "jinja2")


def now() -> str:
    """Returns the time in UTC, as ISO 8601 with whole seconds."""
    return datetime.now(UTC).replace(microsecond=0).isoformat()


def versions(engine: str | None, engine_version: str | None) -> dict[str, str]:
    found = {"python": platform.python_version(), "kveval": kveval.__version__}
    for package in _PACKAGES:
        try:
            found.setdefault(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            continue
    if engine and engine_version:
        found[engine] = engine_version
    return found


def machine(device_name: str | None) -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "device": device_name,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def git_state(folder: Path) -> dict[str, Any] | None:
    """Returns the commit of the working tree around `folder`, and whether it has changes; None outside of one."""

    def git(*arguments: str) -> str | None:
        try:
            result = subprocess.run(
                ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout.strip() if result.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(git("status", "--porcelain"))}


def command() -> list[str]:
    """Returns the command line, without the folder of the program."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]
