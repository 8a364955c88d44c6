"""The rules of the house that a machine can check. `lint-imports` checks the import rule (see pyproject.toml)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kveval

PACKAGE = Path(kveval.__file__).parent
TESTS = Path(__file__).parent
MOST_FILES = 13
MOST_LINES = 280


@pytest.mark.parametrize(
    "statement", ["import kveval", "import kveval.cli.app", "import kveval.engines.plugin.emulation"]
)
def test_heavy_libraries_stay_out_of_startup(statement: str) -> None:
    code = (
        f"{statement}\nimport sys\n"
        "heavy = ('torch', 'vllm', 'lm_eval', 'transformers', 'datasets', 'pandas', 'numpy')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_module_grows_too_long() -> None:
    long = [path.name for path in PACKAGE.rglob("*.py") if len(path.read_text().splitlines()) > MOST_LINES]
    assert long == []


def test_no_folder_holds_too_many_files() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    crowded = {str(folder): count for folder in folders if (count := len(list(folder.glob("*.py")))) > MOST_FILES}
    assert crowded == {}


# Tested through the modules that use them. Add none: write the tests beside the module instead.
UNTESTED_ALONE = {
    "measure/watch/facts.py": "tests/measure/watch/test_blocks.py",
    "memory/overrides.py": "tests/memory/test_layers.py",
    "models/config_file.py": "tests/models/test_folder.py",
    "tasks/references/reference.py": "tests/tasks/test_loader.py",
    "terminal.py": "tests/cli/test_console.py",
}


def modules_with_behaviour() -> list[Path]:
    """Modules with a function. Without one, a module only declares names and fields."""
    behaviour = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        path.relative_to(PACKAGE)
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.name.startswith("__")
        and any(isinstance(node, behaviour) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    ]


@pytest.mark.parametrize("module", modules_with_behaviour(), ids=str)
def test_every_module_has_its_tests_in_the_same_place(module: Path) -> None:
    through = UNTESTED_ALONE.get(module.as_posix())
    assert (TESTS / module.parent / f"test_{module.name}").is_file() or (through and (TESTS.parent / through).is_file())
