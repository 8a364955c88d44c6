"""scripts/bench: that its sections are there. `mypy` checks that they call what exists."""

from __future__ import annotations

import subprocess
import sys

from support import ROOT


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); from benchmarks import main; main(sys.argv[1:])"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_the_help_lists_every_section() -> None:
    result = bench("--help")
    assert result.returncode == 0, result.stderr
    assert all(
        section in result.stdout for section in ("startup", "prompts", "judge", "report", "overhead", "load", "fuzz")
    )


def test_what_takes_hours_runs_only_if_it_is_named() -> None:
    said = " ".join(bench("--help").stdout.split())
    assert "all (the default) but judge, certainty, expected, fuzz, soak; or of startup, prompts, " in said


def test_an_unknown_section_is_refused() -> None:
    result = bench("promts")
    assert result.returncode == 2
    assert "'promts' is unknown; use: all, startup" in result.stderr
