"""The sections of `scripts/bench`, as modules."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from support import ROOT


def benchmark(name: str) -> ModuleType:
    """Loads one section with what it imports: `import benchmarks` would load them all."""
    if "benchmarks" not in sys.modules:
        package = ModuleType("benchmarks")
        package.__path__ = [str(ROOT / "scripts" / "benchmarks")]
        sys.modules["benchmarks"] = package
    return importlib.import_module(f"benchmarks.{name}")
