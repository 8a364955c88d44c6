"""Every command with a standard stream that is full, closed, unread or not Unicode, and with hostile text in it."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Kveval
from support.make_run import GOOD, make_run, make_samples

from kveval import __version__
from kveval.cli.console import print_exactly, print_json
from kveval.terminal import Terminal

HOSTILE = "x\x1b[31mRED\x1b[2J\x07\u202e\x9b1m\r"
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_size": 64, "max_position_embeddings": 8192,
}  # fmt: skip
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
COMMANDS = {
    "gate": "gate {run}", "gate as JSON": "gate {run} --json", "recommend": "recommend {run}",
    "recommend as JSON": "recommend {run} --json", "diff": "diff {run}:bf16 {run}:same",
    "diff as JSON": "diff {run}:bf16 {run}:same --json", "bless": "bless {run} --out {tmp}/blessed.json",
    "report": "report {run}", "report as JSON": "report {run} --json", "memory": "memory {llama}",
    "memory as JSON": "memory {llama} --json", "tasks": "tasks", "tasks as JSON": "tasks --json", "data": "data",
    "data as JSON": "data --json", "sweep": "sweep {config} --dry-run",
    "sweep as JSON": "sweep {config} --dry-run --json",
    "load": "load {config} --dry-run", "load as JSON": "load {config} --dry-run --json", "version": "--version",
    "help": "--help",
}  # fmt: skip


@pytest.fixture
def arguments(tmp_path: Path, config: Callable[..., str]) -> Callable[[str], list[str]]:
    """The command line of one of `COMMANDS`, on a run that passes."""
    path = config(load={"prompt_lengths": [64], "requests": 3})
    run = make_run(tmp_path / "run", samples=make_samples(haystacks=2, lengths=(2048,)), answers=GOOD)
    llama = tmp_path / "llama"
    llama.mkdir()
    (llama / "config.json").write_text(json.dumps(LLAMA))
    places = {"run": run, "tmp": tmp_path, "config": path, "llama": llama}
    return lambda name: COMMANDS[name].format_map(places).split()


@pytest.mark.parametrize("name", COMMANDS)
def test_output_that_nothing_takes_ends_with_3(
    kveval: Kveval, arguments: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given = arguments(name)
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as full, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", full)
            code, _, err = kveval(*given)
        assert (code, err) == (3, "error: standard output: cannot be written (No space left on device)\n")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", None)
        code, _, err = kveval(*given)
    assert (code, err) == (3, "error: standard output is closed; use: > /dev/null to print nothing\n")
    with io.StringIO() as closed, monkeypatch.context() as patched:
        closed.close()
        patched.setattr(sys, "stdout", closed)
        code, _, err = kveval(*given)
    assert code == 3
    assert err.startswith("error: standard output: cannot be written (")
    # What was refused is not printed by the next command of the same process.
    assert kveval("--version") == (0, __version__ + "\n", "")


@FULL
def test_progress_that_nobody_can_read_ends_no_command(
    kveval: Kveval, arguments: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = arguments("sweep as JSON")
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", full)
        code, out, _ = kveval(*given)
    assert code == 0
    assert json.loads(out)
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", full)
        assert kveval("sweep", "no-such-preset")[0] == 2


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    line = command.replace("kveval ", f"{sys.executable} -m kveval ")
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), **environment}
    return subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], env=given, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("kveval tasks --json | true", 3, b""),
        ("kveval tasks --json >&-", 3, b"error: standard output is closed; use: > /dev/null to print nothing\n"),
        ("kveval tasks --json 2>&- >/dev/null", 0, b""),
        ("kveval tasks <&- >/dev/null", 0, b""),
        ("kveval nothing 2>&-", 2, b""),
        ("kveval nothing 2>/dev/full", 2, b""),
        ("kveval report $'\\xff'", 2, b"error: argument 2: '\\udcff' is not UTF-8; use: a name in UTF-8\n"),
    ],
)
def test_in_a_process_of_its_own(command: str, code: int, said: bytes) -> None:
    done = shell(command)
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}]
)
def test_without_unicode(environment: dict[str, str]) -> None:
    done = shell("kveval tasks", **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"niah_single" in done.stdout


def test_hostile_text_is_spelled_out_wherever_it_is_printed(kveval: Kveval) -> None:
    for given in (
        ["report", HOSTILE],
        ["sweep", HOSTILE],
        ["diff", HOSTILE, HOSTILE],
        [HOSTILE],
        ["data", "fetch", HOSTILE],
    ):
        code, out, err = kveval(*given)
        assert code in (2, 3)
        for character in "\x1b\x07\u202e\x9b\r":
            assert character not in out + err
        assert "RED" in err


def test_libraries_cannot_log_what_steers_the_terminal(kveval: Kveval, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler(said := io.StringIO())
    logger = logging.getLogger("some.library")
    logger.addHandler(handler)

    def warns(_: object) -> list[object]:
        logger.warning("loading %s", HOSTILE)
        try:
            raise LookupError(HOSTILE)
        except LookupError:
            logger.exception("failed")
        return []

    monkeypatch.setattr("kveval.list_tasks", warns)
    assert kveval("tasks", "--json")[0] == 0
    logger.removeHandler(handler)
    assert "loading x⟨U+001B⟩[31mRED" in said.getvalue()
    assert "\x1b" not in said.getvalue()


class Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_a_prompt_is_exact_in_a_pipe_and_harmless_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, expected in (
        (io.TextIOWrapper, HOSTILE),
        (Screen, "x⟨U+001B⟩[31mRED⟨U+001B⟩[2J⟨U+0007⟩⟨U+202E⟩⟨U+009B⟩1m⟨U+000D⟩"),
    ):
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", kind(written, encoding="utf-8"))
        print_exactly(HOSTILE)
        assert written.getvalue().decode() == expected


def test_colors_of_its_own_still_work() -> None:
    out = io.StringIO()
    Terminal(file=out, force_terminal=True, color_system="standard").print(f"a{HOSTILE}", style="red", markup=False)
    assert out.getvalue().startswith("\x1b[31ma")
    assert "\x1b[2J" not in out.getvalue()


def test_json_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1, None]})
    assert capsys.readouterr().out == '{\n  "a": [\n    1,\n    null\n  ]\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json(float("nan"))
