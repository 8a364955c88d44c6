"""What is written down when kveval itself fails."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Kveval

from kveval.cli.crash import report_crash, without_secrets


class PanicError(BaseException):
    """What libraries written in Rust raise: no Exception."""


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def breaks(_: object) -> None:
        raise error

    monkeypatch.setattr("kveval.list_tasks", breaks)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    "error",
    [LookupError("a bug"), RecursionError("deep"), MemoryError(), OSError("not the system's"), PanicError("panicked"),
     SystemExit(1), SystemExit("gone"), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_whatever_nobody_foresaw_ends_with_70_and_a_file(
    kveval: Kveval, monkeypatch: pytest.MonkeyPatch, temporary: Path, error: BaseException
) -> None:
    fail(monkeypatch, error)
    code, out, err = kveval("tasks")
    assert (code, out) == (70, "")
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1
    assert err.startswith(f"error: kveval itself failed: {type(error).__name__}: ")
    (report,) = temporary.iterdir()
    assert err.endswith(f"Please report it, and attach {report}\n")
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text()
    assert all(part in text for part in ("$ kveval tasks\n", "Traceback", type(error).__name__, "python 3", "typer "))


def test_a_failure_of_the_system_is_one_line_and_3(kveval: Kveval, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, PermissionError(13, "Permission denied", "/etc/shadow"))
    assert kveval("tasks") == (3, "", "error: /etc/shadow: cannot be used (Permission denied)\n")


def test_the_file_goes_to_the_run_directory(tmp_path: Path, temporary: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "manifest.json").write_text("{}")
    for arguments in (["gate", str(run)], ["sweep", "x.yaml", "--out", str(run)], ["sweep", "x.yaml", f"--out={run}"]):
        message, code = report_crash(LookupError("a bug"), arguments)
        assert code == 70
        assert f"attach {run}/kveval-crash-" in message
    assert len(list(run.glob("kveval-crash-*.txt"))) == 3
    assert list(temporary.iterdir()) == []


def test_without_a_place_to_write_it_still_ends_with_70(
    kveval: Kveval, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    fail(monkeypatch, LookupError("a bug"))
    code, _, err = kveval("tasks")
    assert code == 70
    assert "could not be written to a file: " in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("--api-key abc", "--api-key ***"),
        ("--api-key=abc --out runs/x", "--api-key=*** --out runs/x"),
        ("http://user:pass@host:8000/v1", "http://***@host:8000/v1"),
        ("{'Authorization': 'Bearer abc.def'}", "{'Authorization': ***'}"),
        ("Illegal header value b'Bearer abc.def'", "Illegal header value b'Bearer ***'"),
        ("hf_abcdefghijklmnop and sk-abcdefghijklmnop", "*** and ***"),
        ("OPENAI_API_KEY=abc", "OPENAI_API_KEY=***"),
        ("KeyError: 'needle'", "KeyError: 'needle'"),
        ("tokenizer = load(path); max_tokens=5", "tokenizer = load(path); max_tokens=5"),
    ],
)
def test_secrets_are_removed(text: str, kept: str) -> None:
    assert without_secrets(text) == kept


def test_secrets_of_the_environment_are_removed(
    monkeypatch: pytest.MonkeyPatch, temporary: Path, attach: Callable[[str], None]
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "correct-horse")
    monkeypatch.setenv("MY_SERVICE", "battery-staple")
    attach("MY_SERVICE")
    message, _ = report_crash(LookupError("said correct-horse, battery-staple"), ["sweep", "correct-horse"])
    (report,) = temporary.iterdir()
    for text in (message, report.read_text()):
        assert "correct-horse" not in text
        assert "battery-staple" not in text


def test_no_part_of_a_secret_is_left_where_a_long_message_is_cut(
    monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "correct-horse-battery-staple")
    for filler in range(250, 300):
        message, _ = report_crash(LookupError("x" * filler + "correct-horse-battery-staple"), ["tasks"])
        # The name of the report that follows is drawn, and may hold any letters.
        said = message.partition("kveval-crash-")[0]
        assert "x" * 200 in said
        assert "xc" not in said


@pytest.fixture
def attach() -> Callable[[str], None]:
    from kveval.config.endpoint import EndpointConfig

    def read_key(variable: str) -> None:
        EndpointConfig(url="http://h", model="m", api_key_env=variable).api_key("endpoint")

    return read_key
