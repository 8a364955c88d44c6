"""Runs commands of kveval as processes of their own, which can be killed."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from kveval.engines.process import MARK

# From the end of a command to the end of what it started.
_GRACE_SECONDS = 8.0


@dataclass
class Ended:
    """How a command ended.

    Attributes:
        code: the exit code, or the negative number of a signal. None: it did not end in time.
        printed: on both streams.
        left: processes that it left running, by their command lines.
    """

    arguments: list[str]
    code: int | None
    printed: str
    seconds: float
    left: list[str] = field(default_factory=list)


def run(
    arguments: list[str],
    folder: Path,
    *,
    within_s: float,
    while_running: Callable[[int], None] = lambda _: None,
    preloaded: Mapping[str, str] | None = None,
) -> Ended:
    """Runs a command of kveval in `folder`.

    A fork of this process, which has imported kveval already, costs a tenth of a new interpreter.

    Args:
        while_running: called again and again with the command's process id.
        preloaded: environment variables that only a new interpreter heeds.
    """
    number = len(list(folder.glob("*.out"))) + 1
    path = folder / f"{number:02}-{arguments[0]}.out"
    started = time.monotonic()
    pid = _spawned(arguments, folder, path, preloaded) if preloaded else _forked(arguments, folder, path)
    code = None
    while time.monotonic() < started + within_s:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            break
        while_running(pid)
        time.sleep(0.01)
    if code is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    seconds = time.monotonic() - started
    printed = path.read_text(errors="replace")
    return Ended(arguments, code, printed, round(seconds, 1), _left_by(pid))


def _forked(arguments: list[str], folder: Path, output: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _become(folder, output)
        sys.argv = ["kveval", *arguments]
        from kveval.__main__ import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        # As Python ends: that no code of kveval caught it must show.
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)


def _become(folder: Path, output: Path) -> None:
    os.setsid()
    os.chdir(folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    written, nothing = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, nothing), (1, written), (2, written)):
        os.dup2(source, descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False, buffering=1)


def _spawned(arguments: list[str], folder: Path, output: Path, environment: Mapping[str, str]) -> int:
    with output.open("ab") as file:
        command = [sys.executable, "-m", "kveval", *arguments]
        process = subprocess.Popen(
            command, cwd=folder, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        )  # fmt: skip
    # It is waited for by its id.
    process.returncode = 0
    return process.pid


def limit_files(pid: int, size: int) -> None:
    """Makes the running command `pid` fail to write files larger than `size` bytes, as on a full disk."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def marked(prefix: str) -> list[psutil.Process]:
    """Returns the processes that servers of a command started, and the servers."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, "").startswith(prefix) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _left_by(pid: int) -> list[str]:
    """Returns what the ended command `pid` left running after a moment, and ends it."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while (left := marked(f"{pid}-")) and time.monotonic() < deadline:
        time.sleep(0.1)
    names = []
    for process in left:
        try:
            names.append(" ".join(process.cmdline())[:200])
            process.kill()
        except psutil.Error:
            continue
    return names
