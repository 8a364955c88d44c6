"""CI, its example for GitHub and the hook before a commit run the same commands."""

from __future__ import annotations

import pytest
import yaml
from support import ROOT


def commands(name: str) -> list[str]:
    lines = (ROOT / name).read_text().splitlines()
    return [line.strip() for line in lines if line.strip().startswith(("scripts/", ".venv/"))]


def test_ci_checks_and_then_tests() -> None:
    assert commands(".ci/run") == ["scripts/check", "scripts/test"]


def test_the_example_for_github_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert steps == ["bash .ci/run"]


def test_the_hook_before_a_commit_runs_what_ci_checks() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [(hook["entry"], hook["language"]) for hook in hooks] == [("scripts/check", "system")]


@pytest.mark.parametrize("tool", ["ruff format --check", "ruff check", "mypy", "lint-imports"])
def test_the_check_runs_every_tool(tool: str) -> None:
    assert any(command.startswith(f".venv/bin/{tool}") for command in commands("scripts/check"))
