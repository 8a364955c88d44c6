"""The sections of `scripts/bench`, as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from support import ROOT


def benchmark(name: str) -> ModuleType:
    """Loads one section alone: `import benchmarks` would load them all."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
