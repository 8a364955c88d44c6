"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kveval

PACKAGE = Path(kveval.__file__).parent

# Each package may import those before it; measure and judge share nothing but run directories.
BASE = {
    "errors",
    "config",
    "task_config",
    "records",
    "runs",
    "storage",
    "resources",
    "load_config",
    "load_results",
    "flags",
    "stored_formats",
    "endpoint_config",
    "validation",
    "environment",
    "yaml_file",
}
MAY_IMPORT = {
    "tasks": BASE,
    "quant": {"errors"},
    "engines": BASE | {"quant"},
    "memory": {"errors"},
    "measure": BASE | {"tasks", "quant", "engines", "demo_models"},
    "load": BASE | {"tasks", "engines", "measure"},
    "judge": BASE,
    "report": BASE | {"judge", "memory"},
    "demo_models": BASE | {"tasks"},
    "data": BASE | {"tasks", "demo_models"},
    "config": {
        "errors",
        "resources",
        "quant",
        "load_config",
        "task_config",
        "endpoint_config",
        "speculative_config",
        "validation",
        "environment",
        "yaml_file",
    },
    "endpoint_config": {"errors"},
    "task_config": set(),
    "load_config": {"task_config"},
    "load_results": {"errors", "records", "storage"},
    "flags": set(),
    "stored_formats": {"config"},
    "speculative_config": {"errors"},
    "errors": set(),
    "validation": set(),
    "environment": set(),
    "yaml_file": {"errors"},
    "records": {"errors"},
    "storage": {"errors"},
    "runs": {"errors", "records", "storage"},
    "resources": set(),
}


def imported_parts(path: Path) -> set[str]:
    """First components below ``kveval`` that a module imports, at any level of nesting."""
    parts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        parts |= {name.split(".")[1] for name in names if name.startswith("kveval.")}
    return parts


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_go_one_way(package: str) -> None:
    folder = PACKAGE / package
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    assert files
    for path in files:
        foreign = imported_parts(path) - MAY_IMPORT[package] - {package, "__version__"}
        assert not foreign, f"{path.relative_to(PACKAGE)} must not import kveval.{foreign.pop()}"


def test_import_rule_sees_a_violation(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f():\n    from kveval.measure import sweep\n")
    assert imported_parts(module) == {"measure"}


@pytest.mark.parametrize("statement", ["import kveval", "import kveval.cli", "import kveval.engines.emulation"])
def test_heavy_libraries_stay_out_of_startup(statement: str) -> None:
    code = (
        f"{statement}\nimport sys\n"
        "print([name for name in ('torch', 'vllm', 'lm_eval', 'transformers', 'datasets') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_module_grows_past_400_lines() -> None:
    long = [path.name for path in PACKAGE.rglob("*.py") if len(path.read_text().splitlines()) > 400]
    assert long == []
