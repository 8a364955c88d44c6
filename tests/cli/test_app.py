"""The command line as a whole: help, version, and how every command fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import Kveval
from typer.main import get_command

from kveval import __version__
from kveval.cli.app import app


def all_commands() -> Iterator[list[str]]:
    def below(command: Any, path: list[str]) -> Iterator[list[str]]:
        yield path
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, [*path, name])

    yield from below(get_command(app), [])


@pytest.mark.parametrize("path", list(all_commands()), ids=" ".join)
def test_help_has_every_command_and_an_example(kveval: Kveval, path: list[str]) -> None:
    code, out, _ = kveval(*path, "--help")
    assert code == 0
    command = get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    children = getattr(command, "commands", {})
    for name in children:
        assert name in out
    if not path:
        assert set(children) >= {"sweep", "report", "tasks"}
    else:
        assert "Example" in out
        assert f"kveval {' '.join(path)}" in out.split("Example")[-1]


def test_the_version(kveval: Kveval) -> None:
    assert kveval("--version") == (0, __version__ + "\n", "")


def test_no_arguments_show_the_help(kveval: Kveval) -> None:
    _, out, err = kveval()
    assert "Usage" in out + err


def test_the_installed_command() -> None:
    """In a process of its own: the entry point, the exit code and a standard error without control characters."""
    script = Path(sys.executable).with_name("kveval")
    command = [str(script)] if script.exists() else [sys.executable, "-c", "from kveval.cli.app import main; main()"]
    result = subprocess.run([*command, "sweep", "dmo"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: dmo: neither a file nor a preset; did you mean 'demo'")
    assert len(result.stderr.splitlines()) == 1


def test_a_misspelt_command_is_one_line(kveval: Kveval) -> None:
    code, out, err = kveval("swep")
    assert (code, out) == (2, "")
    assert err == "error: No such command 'swep'. Did you mean 'sweep'?; see --help\n"


def test_a_failure_of_kveval_itself_is_not_taken_for_a_loss(kveval: Kveval, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: object) -> None:
        raise LookupError("a bug")

    monkeypatch.setattr("kveval.list_tasks", breaks)
    code, _, err = kveval("tasks")
    assert code == 70
    assert err.startswith("error: kveval itself failed: LookupError: a bug. ")


def test_ctrl_c_ends_without_a_traceback(kveval: Kveval, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kveval.list_tasks", interrupted)
    assert kveval("tasks") == (130, "", "")


def test_a_reader_that_stops_early_is_no_error() -> None:
    listing = f"{sys.executable} -m kveval tasks --json"
    result = subprocess.run(["bash", "-c", f"{listing} | true"], capture_output=True, text=True, check=False)
    assert result.stderr == ""


@pytest.mark.parametrize("path", [path for path in all_commands() if path], ids=" ".join)
def test_every_option_has_a_help_text(path: list[str]) -> None:
    command: Any = get_command(app)
    for name in path:
        command = command.commands[name]
    assert command.help
    assert [option.name for option in command.params if not option.help] == []
